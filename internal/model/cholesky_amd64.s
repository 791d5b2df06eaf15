#include "textflag.h"

// func subtract4AVX2(from *float64, n int, factors *[4]float64, a, b, c, d *float64)
//
// Products are rounded before they are added, as in Go.
TEXT ·subtract4AVX2(SB), NOSPLIT, $0-56
	MOVQ from+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ factors+16(FP), SI
	MOVQ a+24(FP), R8
	MOVQ b+32(FP), R9
	MOVQ c+40(FP), R10
	MOVQ d+48(FP), R11
	VBROADCASTSD (SI), Y4
	VBROADCASTSD 8(SI), Y5
	VBROADCASTSD 16(SI), Y6
	VBROADCASTSD 24(SI), Y7
	SHLQ $3, CX
	XORL AX, AX

subtract:
	VMULPD (R8)(AX*1), Y4, Y0
	VMULPD (R9)(AX*1), Y5, Y1
	VMULPD (R10)(AX*1), Y6, Y2
	VMULPD (R11)(AX*1), Y7, Y3
	VADDPD Y1, Y0, Y0
	VADDPD Y3, Y2, Y2
	VADDPD Y2, Y0, Y0
	VMOVUPD (DI)(AX*1), Y1
	VSUBPD Y0, Y1, Y1
	VMOVUPD Y1, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  subtract
	VZEROUPPER
	RET
