#include "textflag.h"

// Masks of VMASKMOVPD for 1, 2, 3 and 4 outputs left: 32 bytes at tail + 32 - 8 left.
DATA tail<>+0(SB)/8, $-1
DATA tail<>+8(SB)/8, $-1
DATA tail<>+16(SB)/8, $-1
DATA tail<>+24(SB)/8, $-1
DATA tail<>+32(SB)/8, $0
DATA tail<>+40(SB)/8, $0
DATA tail<>+48(SB)/8, $0
GLOBL tail<>(SB), RODATA|NOPTR, $56

// func sumRowsAVX2(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int)
//
// For every four outputs it walks all rows with the three sums in registers.
TEXT ·sumRowsAVX2(SB), NOSPLIT, $0-80
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), R8
	MOVQ at+16(FP), AX    // offset of the weights in a row, bytes
	SHLQ $3, AX
	MOVQ n+24(FP), DX     // from the weights to the lags, bytes
	SHLQ $4, DX
	MOVQ x+32(FP), R9
	MOVQ basis+40(FP), R10
	MOVQ f+48(FP), R11
	MOVQ lag+56(FP), R12
	MOVQ q+64(FP), R13
	MOVQ active+72(FP), BX
	LEAQ tail<>(SB), R15

sumBlock:
	VMOVUPD (R15), Y14    // all four
	CMPQ BX, $4
	JGE  sumLoad
	MOVQ $4, CX
	SUBQ BX, CX
	VMOVUPD (R15)(CX*8), Y14

sumLoad:
	VMASKMOVPD (R11), Y14, Y0
	VMASKMOVPD (R12), Y14, Y1
	VMASKMOVPD (R13), Y14, Y2
	XORQ DI, DI           // index of the row
	MOVQ SI, R14          // its slice

sumRow:
	MOVQ (R14), CX
	ADDQ AX, CX
	VMASKMOVPD (CX), Y14, Y3       // w
	VMASKMOVPD (CX)(DX*1), Y14, Y4 // u
	VBROADCASTSD (R9)(DI*8), Y5
	VBROADCASTSD (R10)(DI*8), Y6
	VMULPD Y4, Y5, Y4
	VADDPD Y4, Y1, Y1
	VMULPD Y3, Y5, Y5
	VADDPD Y5, Y0, Y0
	VMULPD Y3, Y6, Y6              // (basis w) w
	VMULPD Y3, Y6, Y6
	VADDPD Y6, Y2, Y2
	ADDQ $24, R14
	INCQ DI
	CMPQ DI, R8
	JLT  sumRow

	VMASKMOVPD Y0, Y14, (R11)
	VMASKMOVPD Y1, Y14, (R12)
	VMASKMOVPD Y2, Y14, (R13)
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $32, R13
	ADDQ $32, AX
	SUBQ $4, BX
	JGT  sumBlock
	VZEROUPPER
	RET

// func adagradRowsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, minusEta *float64, active int, c *adagradConstants)
TEXT ·adagradRowsAVX2(SB), NOSPLIT, $0-96
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), AX
	SHLQ $3, AX
	MOVQ n+24(FP), DX
	SHLQ $3, DX
	MOVQ x+32(FP), R8
	MOVQ basis+40(FP), R9
	MOVQ ridge+48(FP), R10
	MOVQ c+88(FP), BX
	VBROADCASTSD 0(BX), Y14  // start
	VBROADCASTSD 8(BX), Y13  // eps
	VBROADCASTSD 16(BX), Y12 // inverse
	LEAQ tail<>(SB), R15

stepRow:
	MOVQ (SI), DI
	ADDQ AX, DI
	VBROADCASTSD (R8), Y11  // x
	VBROADCASTSD (R9), Y10  // basis
	VBROADCASTSD (R10), Y9  // ridge
	MOVQ df+56(FP), R11
	MOVQ shrink+64(FP), R12
	MOVQ minusEta+72(FP), R14
	MOVQ active+80(FP), BX
	CMPQ BX, $4
	JLT  stepTail

step4:
	LEAQ (DI)(DX*2), R13
	VMOVUPD (DI), Y0         // w
	VMOVUPD (DI)(DX*1), Y1   // m
	VMOVUPD (R13), Y2        // u
	VMULPD (R11), Y11, Y3    // df x
	VMULPD (R12), Y10, Y4    // shrink basis
	VADDPD Y9, Y4, Y4
	VMULPD Y0, Y4, Y4
	VADDPD Y4, Y3, Y3        // g
	VMULPD Y3, Y3, Y4
	VADDPD Y4, Y1, Y1
	VMOVUPD Y1, (DI)(DX*1)
	VADDPD Y14, Y1, Y1
	VSQRTPD Y1, Y1
	VADDPD Y13, Y1, Y1
	VMULPD (R14), Y3, Y3
	VDIVPD Y1, Y3, Y3        // delta
	VADDPD Y3, Y0, Y0
	VMOVUPD Y0, (DI)
	VMULPD Y12, Y3, Y3
	VSUBPD Y3, Y2, Y2
	VMOVUPD Y2, (R13)
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $32, R14
	SUBQ $4, BX
	CMPQ BX, $4
	JGE  step4

stepTail:
	TESTQ BX, BX
	JEQ  stepNext
	MOVQ $4, R13
	SUBQ BX, R13
	VMOVUPD (R15)(R13*8), Y8
	LEAQ (DI)(DX*2), R13
	VMASKMOVPD (DI), Y8, Y0
	VMASKMOVPD (DI)(DX*1), Y8, Y1
	VMASKMOVPD (R13), Y8, Y2
	VMASKMOVPD (R11), Y8, Y3
	VMASKMOVPD (R12), Y8, Y4
	VMULPD Y3, Y11, Y3
	VMULPD Y4, Y10, Y4
	VADDPD Y9, Y4, Y4
	VMULPD Y0, Y4, Y4
	VADDPD Y4, Y3, Y3
	VMULPD Y3, Y3, Y4
	VADDPD Y4, Y1, Y1
	VMASKMOVPD Y1, Y8, (DI)(DX*1)
	VADDPD Y14, Y1, Y1
	VMASKMOVPD (R14), Y8, Y4
	VMULPD Y4, Y3, Y3
	CMPQ BX, $2
	JGT  stepTail3
	VSQRTPD X1, X1           // the divider takes half as long for two
	VADDPD X13, X1, X1
	VDIVPD X1, X3, X3
	JMP  stepTailEnd

stepTail3:
	VSQRTPD Y1, Y1
	VADDPD Y13, Y1, Y1
	VDIVPD Y1, Y3, Y3

stepTailEnd:
	VADDPD Y3, Y0, Y0
	VMASKMOVPD Y0, Y8, (DI)
	VMULPD Y12, Y3, Y3
	VSUBPD Y3, Y2, Y2
	VMASKMOVPD Y2, Y8, (R13)

stepNext:
	ADDQ $24, SI
	ADDQ $8, R8
	ADDQ $8, R9
	ADDQ $8, R10
	DECQ CX
	JNE  stepRow
	VZEROUPPER
	RET
