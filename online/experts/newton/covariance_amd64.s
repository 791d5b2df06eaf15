#include "textflag.h"

// In both functions DI is the column j of U in R8 = j, and products are rounded before they are added, as in Go.

// func leverageAVX2(data, z, f *float64, n, first int) (h float64)
TEXT ·leverageAVX2(SB), NOSPLIT, $0-48
	MOVQ data+0(FP), DI
	MOVQ z+8(FP), SI
	MOVQ f+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ first+32(FP), R11
	XORL R8, R8
	VXORPD X7, X7, X7 // h

column:
	VXORPD X0, X0, X0
	CMPQ R8, R11
	JLT  found
	MOVQ R11, R9
	MOVQ R8, R10
	SUBQ $3, R10
	VXORPD Y0, Y0, Y0
	CMPQ R9, R10
	JGE  sum

four:
	VMOVUPD (DI)(R9*8), Y1
	VMULPD (SI)(R9*8), Y1, Y1
	VADDPD Y1, Y0, Y0
	ADDQ $4, R9
	CMPQ R9, R10
	JLT  four

sum:
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VPERMILPD $1, X0, X1
	VADDSD X1, X0, X0
	JMP  more

one:
	VMOVSD (DI)(R9*8), X1
	VMULSD (SI)(R9*8), X1, X1
	VADDSD X1, X0, X0
	INCQ R9

more:
	CMPQ R9, R8
	JLT  one
	VADDSD (SI)(R8*8), X0, X0

found:
	VMOVSD X0, (DX)(R8*8)
	VMULSD X0, X0, X0
	VMULSD (DI)(R8*8), X0, X0
	VADDSD X0, X7, X7
	INCQ R8
	LEAQ (DI)(R8*8), DI
	CMPQ R8, CX
	JLT  column
	VZEROUPPER
	VMOVSD X7, h+40(FP)
	RET

// func updateAVX2(data, f, gain *float64, n int, a float64) (alpha float64)
TEXT ·updateAVX2(SB), NOSPLIT, $0-48
	MOVQ data+0(FP), DI
	MOVQ f+8(FP), SI
	MOVQ gain+16(FP), DX
	MOVQ n+24(FP), CX
	VMOVSD a+32(FP), X15
	MOVQ $0x3ff0000000000000, AX
	VMOVQ AX, X14 // alpha = 1
	MOVQ $0x8000000000000000, AX
	VMOVQ AX, X13
	XORL R8, R8

column:
	VMOVSD (SI)(R8*8), X0
	VMOVSD (DI)(R8*8), X1
	VMULSD X0, X15, X4    // by
	VMULSD X0, X1, X5     // v
	VMULSD X5, X4, X3
	VADDSD X3, X14, X3    // the new alpha
	VDIVSD X3, X14, X2
	VMULSD X2, X1, X1
	VMOVSD X1, (DI)(R8*8)
	VXORPD X13, X4, X4
	VDIVSD X14, X4, X4
	VMOVAPD X3, X14
	VBROADCASTSD X4, Y4
	VBROADCASTSD X5, Y5
	XORL R9, R9
	MOVQ R8, R10
	SUBQ $3, R10
	JLE  more

four:
	VMOVUPD (DI)(R9*8), Y0
	VMOVUPD (DX)(R9*8), Y1
	VMULPD Y1, Y4, Y2
	VMULPD Y0, Y5, Y3
	VADDPD Y2, Y0, Y0
	VADDPD Y3, Y1, Y1
	VMOVUPD Y0, (DI)(R9*8)
	VMOVUPD Y1, (DX)(R9*8)
	ADDQ $4, R9
	CMPQ R9, R10
	JLT  four
	JMP  more

one:
	VMOVSD (DI)(R9*8), X0
	VMOVSD (DX)(R9*8), X1
	VMULSD X1, X4, X2
	VMULSD X0, X5, X3
	VADDSD X2, X0, X0
	VADDSD X3, X1, X1
	VMOVSD X0, (DI)(R9*8)
	VMOVSD X1, (DX)(R9*8)
	INCQ R9

more:
	CMPQ R9, R8
	JLT  one
	VMOVSD X5, (DX)(R8*8)
	INCQ R8
	LEAQ (DI)(R8*8), DI
	CMPQ R8, CX
	JLT  column
	VZEROUPPER
	VMOVSD X14, alpha+40(FP)
	RET
