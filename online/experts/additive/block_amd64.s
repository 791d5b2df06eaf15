#include "textflag.h"

DATA one<>+0(SB)/4, $0x3f800000 // 1
GLOBL one<>(SB), RODATA|NOPTR, $4
DATA epsilon<>+0(SB)/4, $0x322bcc77 // 1e-8
GLOBL epsilon<>(SB), RODATA|NOPTR, $4

// In all loops AX counts features, and R10 becomes the offset of the feature's row. Products are rounded before they
// are added, as in Go.

// func sumAVX2(weights *float32, index *int, x *float64, n, lanes int, sums *[8]float64)
TEXT ·sumAVX2(SB), NOSPLIT, $0-48
	MOVQ weights+0(FP), DI
	MOVQ index+8(FP), SI
	MOVQ x+16(FP), R8
	MOVQ n+24(FP), CX
	MOVQ lanes+32(FP), R11
	SHLQ $2, R11
	MOVQ sums+40(FP), R12
	VMOVUPD (R12), Y0
	VMOVUPD 32(R12), Y1
	XORL AX, AX

sum:
	MOVQ (SI)(AX*8), R10
	IMULQ R11, R10
	VCVTPS2PD (DI)(R10*1), Y2
	VCVTPS2PD 16(DI)(R10*1), Y3
	VBROADCASTSD (R8)(AX*8), Y4
	VMULPD Y4, Y2, Y2
	VMULPD Y4, Y3, Y3
	VADDPD Y2, Y0, Y0
	VADDPD Y3, Y1, Y1
	INCQ AX
	CMPQ AX, CX
	JLT  sum
	VMOVUPD Y0, (R12)
	VMOVUPD Y1, 32(R12)
	VZEROUPPER
	RET

// func varianceAVX2(weights *float32, index *int, basis *float32, n, lanes int, sums *[8]float32)
TEXT ·varianceAVX2(SB), NOSPLIT, $0-48
	MOVQ weights+0(FP), DI
	MOVQ index+8(FP), SI
	MOVQ basis+16(FP), R9
	MOVQ n+24(FP), CX
	MOVQ lanes+32(FP), R11
	SHLQ $2, R11
	MOVQ sums+40(FP), R12
	VMOVUPS (R12), Y0
	XORL AX, AX

variance:
	MOVQ (SI)(AX*8), R10
	IMULQ R11, R10
	VMOVUPS (DI)(R10*1), Y2
	VBROADCASTSS (R9)(AX*4), Y4
	VMULPS Y2, Y2, Y2
	VMULPS Y2, Y4, Y4
	VADDPS Y4, Y0, Y0
	INCQ AX
	CMPQ AX, CX
	JLT  variance
	VMOVUPS Y0, (R12)
	VZEROUPPER
	RET

// func gradientsAVX2(weights, squares *float32, index *int, x, basis *float32, n, lanes int, by *factors, steps *float32, kappa *[8]float32)
TEXT ·gradientsAVX2(SB), NOSPLIT, $0-80
	MOVQ weights+0(FP), DI
	MOVQ squares+8(FP), DX
	MOVQ index+16(FP), SI
	MOVQ x+24(FP), R8
	MOVQ basis+32(FP), R9
	MOVQ n+40(FP), CX
	MOVQ lanes+48(FP), R11
	SHLQ $2, R11
	MOVQ by+56(FP), R12
	MOVQ steps+64(FP), R13
	MOVQ kappa+72(FP), BX
	VMOVUPS (R12), Y6   // df
	VMOVUPS 32(R12), Y7 // shrink
	VMOVUPS (BX), Y8
	VBROADCASTSS one<>(SB), Y9
	VBROADCASTSS epsilon<>(SB), Y10
	XORL AX, AX

gradient:
	MOVQ (SI)(AX*8), R10
	IMULQ R11, R10
	VBROADCASTSS (R8)(AX*4), Y1
	VBROADCASTSS (R9)(AX*4), Y2
	VMULPS Y2, Y7, Y3
	VMULPS (DI)(R10*1), Y3, Y3
	VMULPS Y1, Y6, Y4
	VADDPS Y3, Y4, Y3              // g
	VMULPS Y3, Y3, Y4
	VADDPS (DX)(R10*1), Y4, Y5
	VMOVUPS Y5, (DX)(R10*1)
	VSQRTPS Y5, Y5
	VADDPS Y10, Y5, Y5
	VDIVPS Y5, Y9, Y5              // 1 / (root + epsilon)
	VMULPS Y5, Y3, Y3
	VMOVUPS Y3, (R13)
	VMULPS Y1, Y1, Y1
	VMULPS Y5, Y1, Y1
	VADDPS Y1, Y8, Y8
	ADDQ $32, R13
	INCQ AX
	CMPQ AX, CX
	JLT  gradient
	VMOVUPS Y8, (BX)
	VZEROUPPER
	RET

// func descendAVX2(weights *float32, index *int, n, lanes int, rate *[8]float32, steps *float32)
TEXT ·descendAVX2(SB), NOSPLIT, $0-48
	MOVQ weights+0(FP), DI
	MOVQ index+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ lanes+24(FP), R11
	SHLQ $2, R11
	MOVQ rate+32(FP), R12
	MOVQ steps+40(FP), R13
	VMOVUPS (R12), Y0
	XORL AX, AX

descend:
	MOVQ (SI)(AX*8), R10
	IMULQ R11, R10
	VMULPS (R13), Y0, Y1
	VADDPS (DI)(R10*1), Y1, Y1
	VMOVUPS Y1, (DI)(R10*1)
	ADDQ $32, R13
	INCQ AX
	CMPQ AX, CX
	JLT  descend
	VZEROUPPER
	RET
