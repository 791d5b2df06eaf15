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

// func productAVX2(a, b *float64, n int) float64
//
// Sixteen sums, of every sixteenth product, are added as in productGo.
TEXT ·productAVX2(SB), NOSPLIT, $0-32
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DI
	MOVQ n+16(FP), CX
	SHLQ $3, CX
	XORL AX, AX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

product:
	VMOVUPD (SI)(AX*1), Y4
	VMOVUPD 32(SI)(AX*1), Y5
	VMOVUPD 64(SI)(AX*1), Y6
	VMOVUPD 96(SI)(AX*1), Y7
	VMULPD (DI)(AX*1), Y4, Y4
	VMULPD 32(DI)(AX*1), Y5, Y5
	VMULPD 64(DI)(AX*1), Y6, Y6
	VMULPD 96(DI)(AX*1), Y7, Y7
	VADDPD Y4, Y0, Y0
	VADDPD Y5, Y1, Y1
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	ADDQ $128, AX
	CMPQ AX, CX
	JLT  product
	VADDPD Y1, Y0, Y0
	VADDPD Y3, Y2, Y2
	VADDPD Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VHADDPD X0, X0, X0
	VHADDPD X1, X1, X1
	VADDSD X1, X0, X0
	VZEROUPPER
	MOVSD X0, ret+24(FP)
	RET

// func sweepAVX2(c, gain *float64, n int, v, l float64)
//
// Products are rounded before they are added, as in Go.
TEXT ·sweepAVX2(SB), NOSPLIT, $0-40
	MOVQ c+0(FP), SI
	MOVQ gain+8(FP), DI
	MOVQ n+16(FP), CX
	VBROADCASTSD v+24(FP), Y4
	VBROADCASTSD l+32(FP), Y5
	SHLQ $3, CX
	XORL AX, AX

sweep:
	VMOVUPD (SI)(AX*1), Y0
	VMOVUPD (DI)(AX*1), Y1
	VMULPD Y1, Y5, Y2
	VMULPD Y0, Y4, Y3
	VADDPD Y2, Y0, Y2
	VADDPD Y3, Y1, Y3
	VMOVUPD Y2, (SI)(AX*1)
	VMOVUPD Y3, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  sweep
	VZEROUPPER
	RET
