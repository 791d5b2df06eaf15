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

DATA half<>+0(SB)/8, $0.5
GLOBL half<>(SB), RODATA|NOPTR, $8
DATA guess<>+0(SB)/8, $0x5fe6eb50c7b537a9
GLOBL guess<>(SB), RODATA|NOPTR, $8

// The macros take the registers of the quantities that they name: Z for eight
// outputs (AVX-512), Y for four, X for two or one.

// NEWTON is a step of InverseRoot's iteration for y and a.
#define NEWTON(y, a, r, half) \
	VMOVAPD half, r         \
	VFNMADD231PD a, y, r    \
	VFMADD213PD y, r, y     \
	VFMADD213PD a, r, a

// ROOT sets y to the InverseRoot of s; it uses a and r. A NaN becomes the second
// operand of VMAXPD, 0.
#define ROOT(y, s, eps, a, r, half, guess, zero) \
	VMULPD half, s, a     \
	VPSRLQ $1, s, y       \
	VPSUBQ y, guess, y    \
	VMULPD a, y, a        \
	NEWTON(y, a, r, half) \
	NEWTON(y, a, r, half) \
	VFNMADD213PD half, y, a \
	VFNMADD231PD eps, y, a \
	VFMADD213PD y, a, y   \
	VMAXPD zero, y, y

#define ROOT8 ROOT(Z5, Z1, Z13, Z4, Z6, Z8, Z7, Z15)
#define ROOT4 ROOT(Y5, Y1, Y13, Y4, Y6, Y8, Y7, Y15)
#define ROOT2 ROOT(X5, X1, X13, X4, X6, X8, X7, X15)

// GRADIENT sets g to df x + (shrink basis + ridge) w.
#define GRADIENT(g, df, shrink, x, basis, ridge, w) \
	VMULPD df, x, g                  \
	VFMADD213PD ridge, basis, shrink \
	VFMADD231PD w, shrink, g

#define GRADIENT8(df) GRADIENT(Z3, df, Z6, Z11, Z10, Z9, Z0)
#define GRADIENT4(df) GRADIENT(Y3, df, Y6, Y11, Y10, Y9, Y0)
#define GRADIENT2(df) GRADIENT(X3, df, X6, X11, X10, X9, X0)

// MASK sets Y2 to the mask of BX outputs, 1 to 4, with tail in R15. It uses R13.
#define MASK \
	MOVQ $4, R13 \
	SUBQ BX, R13 \
	VMOVUPD (R15)(R13*8), Y2

// func sumAVX2(rows *[]float64, count, at, n int, x, basis, f, lag, q *float64, active int)
//
// For every sixteen outputs (AVX-512), every eight, then every four, it walks all
// rows with the three sums in registers.
TEXT ·sumAVX2(SB), NOSPLIT, $0-80
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
	CMPB ·hasAVX512(SB), $0
	JEQ  sumUpTo15
	CMPQ BX, $16
	JLT  sumUpTo15

sum16:
	VMOVUPD (R11), Z0
	VMOVUPD (R12), Z1
	VMOVUPD (R13), Z2
	VMOVUPD 64(R11), Z7
	VMOVUPD 64(R12), Z8
	VMOVUPD 64(R13), Z9
	XORQ DI, DI           // index of the row
	MOVQ SI, R14          // its slice

sumRow16:
	MOVQ (R14), CX
	ADDQ AX, CX
	VBROADCASTSD (R9)(DI*8), Z5
	VBROADCASTSD (R10)(DI*8), Z6
	VMOVUPD (CX), Z3                  // w
	VMOVUPD 64(CX), Z4
	VFMADD231PD Z3, Z5, Z0
	VFMADD231PD Z4, Z5, Z7
	VFMADD231PD (CX)(DX*1), Z5, Z1    // u
	VFMADD231PD 64(CX)(DX*1), Z5, Z8
	VMULPD Z3, Z6, Z10                // (basis w) w
	VFMADD231PD Z3, Z10, Z2
	VMULPD Z4, Z6, Z6
	VFMADD231PD Z4, Z6, Z9
	ADDQ $24, R14
	INCQ DI
	CMPQ DI, R8
	JLT  sumRow16

	VMOVUPD Z0, (R11)
	VMOVUPD Z1, (R12)
	VMOVUPD Z2, (R13)
	VMOVUPD Z7, 64(R11)
	VMOVUPD Z8, 64(R12)
	VMOVUPD Z9, 64(R13)
	ADDQ $128, R11
	ADDQ $128, R12
	ADDQ $128, R13
	ADDQ $128, AX
	SUBQ $16, BX
	CMPQ BX, $16
	JGE  sum16
	TESTQ BX, BX
	JEQ  sumDone

sumUpTo15:
	CMPQ BX, $8
	JLT  sumBlock

sum8:
	VMOVUPD (R11), Y0
	VMOVUPD (R12), Y1
	VMOVUPD (R13), Y2
	VMOVUPD 32(R11), Y7
	VMOVUPD 32(R12), Y8
	VMOVUPD 32(R13), Y9
	XORQ DI, DI
	MOVQ SI, R14

sumRow8:
	MOVQ (R14), CX
	ADDQ AX, CX
	VBROADCASTSD (R9)(DI*8), Y5
	VBROADCASTSD (R10)(DI*8), Y6
	VMOVUPD (CX), Y3
	VMOVUPD 32(CX), Y4
	VFMADD231PD Y3, Y5, Y0
	VFMADD231PD Y4, Y5, Y7
	VFMADD231PD (CX)(DX*1), Y5, Y1
	VFMADD231PD 32(CX)(DX*1), Y5, Y8
	VMULPD Y3, Y6, Y10
	VFMADD231PD Y3, Y10, Y2
	VMULPD Y4, Y6, Y6
	VFMADD231PD Y4, Y6, Y9
	ADDQ $24, R14
	INCQ DI
	CMPQ DI, R8
	JLT  sumRow8

	VMOVUPD Y0, (R11)
	VMOVUPD Y1, (R12)
	VMOVUPD Y2, (R13)
	VMOVUPD Y7, 32(R11)
	VMOVUPD Y8, 32(R12)
	VMOVUPD Y9, 32(R13)
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R13
	ADDQ $64, AX
	SUBQ $8, BX
	CMPQ BX, $8
	JGE  sum8
	TESTQ BX, BX
	JEQ  sumDone

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
	XORQ DI, DI
	MOVQ SI, R14

sumRow:
	MOVQ (R14), CX
	ADDQ AX, CX
	VMASKMOVPD (CX), Y14, Y3
	VMASKMOVPD (CX)(DX*1), Y14, Y4
	VBROADCASTSD (R9)(DI*8), Y5
	VBROADCASTSD (R10)(DI*8), Y6
	VFMADD231PD Y4, Y5, Y1
	VFMADD231PD Y3, Y5, Y0
	VMULPD Y3, Y6, Y6
	VFMADD231PD Y3, Y6, Y2
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

sumDone:
	VZEROUPPER
	RET

// func sumAveragesAVX2(rows *[]float64, count, at, n int, basis, c, q *float64, active int)
TEXT ·sumAveragesAVX2(SB), NOSPLIT, $0-64
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), R8
	MOVQ at+16(FP), AX
	SHLQ $3, AX
	MOVQ n+24(FP), DX
	SHLQ $4, DX
	MOVQ basis+32(FP), R10
	MOVQ c+40(FP), R9
	MOVQ q+48(FP), R12
	MOVQ active+56(FP), BX
	LEAQ tail<>(SB), R15
	VMOVUPD (R15), Y2       // all four

average8:
	CMPQ BX, $8
	JLT  average4
	VMOVUPD (R12), Y0
	VMOVUPD 32(R12), Y1
	VMOVUPD (R9), Y7
	VMOVUPD 32(R9), Y8
	XORQ DI, DI
	MOVQ SI, R14

averageRow8:
	MOVQ (R14), CX
	ADDQ AX, CX
	VMOVUPD (CX), Y6                 // w
	VMOVUPD 32(CX), Y3
	VFMADD231PD (CX)(DX*1), Y7, Y6   // a
	VFMADD231PD 32(CX)(DX*1), Y8, Y3
	VBROADCASTSD (R10)(DI*8), Y4
	VMULPD Y6, Y4, Y5
	VFMADD231PD Y6, Y5, Y0
	VMULPD Y3, Y4, Y4
	VFMADD231PD Y3, Y4, Y1
	ADDQ $24, R14
	INCQ DI
	CMPQ DI, R8
	JLT  averageRow8
	VMOVUPD Y0, (R12)
	VMOVUPD Y1, 32(R12)
	ADDQ $64, R12
	ADDQ $64, R9
	ADDQ $64, AX
	SUBQ $8, BX
	JNE  average8
	VZEROUPPER
	RET

average4:
	CMPQ BX, $4
	JGE  averageLoad
	MASK

averageLoad:
	VMASKMOVPD (R12), Y2, Y0
	VMASKMOVPD (R9), Y2, Y7
	XORQ DI, DI
	MOVQ SI, R14

averageRow:
	MOVQ (R14), CX
	ADDQ AX, CX
	VMASKMOVPD (CX), Y2, Y6
	VMASKMOVPD (CX)(DX*1), Y2, Y3
	VFMADD231PD Y3, Y7, Y6
	VBROADCASTSD (R10)(DI*8), Y4
	VMULPD Y6, Y4, Y4
	VFMADD231PD Y6, Y4, Y0
	ADDQ $24, R14
	INCQ DI
	CMPQ DI, R8
	JLT  averageRow
	VMASKMOVPD Y0, Y2, (R12)
	ADDQ $32, R12
	ADDQ $32, R9
	ADDQ $32, AX
	SUBQ $4, BX
	JGT  average4
	VZEROUPPER
	RET

// func adagradStepAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, rates *float64, active int, c *AdagradConstants)
//
// The n rates minusEta are followed by those of inverse.
TEXT ·adagradStepAVX2(SB), NOSPLIT, $0-96
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
	VBROADCASTSD half<>(SB), Y8
	VBROADCASTSD guess<>(SB), Y7
	VXORPD Y15, Y15, Y15
	CMPB ·hasAVX512(SB), $0
	JEQ  stepRow
	VBROADCASTSD X14, Z14
	VBROADCASTSD X13, Z13
	VBROADCASTSD X8, Z8
	VBROADCASTSD X7, Z7

stepRow:
	MOVQ (SI), DI
	ADDQ AX, DI
	VBROADCASTSD (R8), Y11  // x
	VBROADCASTSD (R9), Y10  // basis
	VBROADCASTSD (R10), Y9  // ridge
	MOVQ df+56(FP), R11
	MOVQ shrink+64(FP), R12
	MOVQ rates+72(FP), R14
	MOVQ active+80(FP), BX
	CMPQ BX, $8
	JLT  stepUpTo7
	CMPB ·hasAVX512(SB), $0
	JEQ  stepUpTo7
	// The next row is asked for meanwhile; behind the last one is it again.
	XORL R13, R13
	CMPQ CX, $1
	SETNE R13
	LEAQ (R13)(R13*2), R13
	MOVQ (SI)(R13*8), R15
	ADDQ AX, R15
	VBROADCASTSD (R8), Z11
	VBROADCASTSD (R9), Z10
	VBROADCASTSD (R10), Z9

step8:
	PREFETCHT0 (R15)
	PREFETCHT0 (R15)(DX*1)
	PREFETCHT0 (R15)(DX*2)
	ADDQ $64, R15
	LEAQ (DI)(DX*2), R13
	VMOVUPD (DI), Z0         // w
	VMOVUPD (DI)(DX*1), Z1   // m
	VMOVUPD (R13), Z2        // u
	VMOVUPD (R12), Z6
	GRADIENT8((R11))
	VFMADD231PD Z3, Z3, Z1
	VMOVUPD Z1, (DI)(DX*1)
	VADDPD Z14, Z1, Z1
	ROOT8
	VMULPD (R14), Z3, Z3
	VMULPD Z5, Z3, Z3        // delta
	VADDPD Z3, Z0, Z0
	VMOVUPD Z0, (DI)
	VFNMADD231PD (R14)(DX*1), Z3, Z2 // inverse
	VMOVUPD Z2, (R13)
	ADDQ $64, DI
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R14
	SUBQ $8, BX
	CMPQ BX, $8
	JGE  step8

stepUpTo7:
	CMPQ BX, $4
	JLT  stepTail

step4:
	LEAQ (DI)(DX*2), R13
	VMOVUPD (DI), Y0
	VMOVUPD (DI)(DX*1), Y1
	VMOVUPD (R13), Y2
	VMOVUPD (R12), Y6
	GRADIENT4((R11))
	VFMADD231PD Y3, Y3, Y1
	VMOVUPD Y1, (DI)(DX*1)
	VADDPD Y14, Y1, Y1
	ROOT4
	VMULPD (R14), Y3, Y3
	VMULPD Y5, Y3, Y3
	VADDPD Y3, Y0, Y0
	VMOVUPD Y0, (DI)
	VFNMADD231PD (R14)(DX*1), Y3, Y2
	VMOVUPD Y2, (R13)
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $32, R14
	SUBQ $4, BX
	CMPQ BX, $4
	JGE  step4

	// No masks here: a load that reaches over a store under way, even where it is
	// masked, waits for it.
stepTail:
	LEAQ (DI)(DX*2), R13
	TESTQ $2, BX
	JEQ  step1
	VMOVUPD (DI), X0
	VMOVUPD (DI)(DX*1), X1
	VMOVUPD (R13), X2
	VMOVUPD (R12), X6
	GRADIENT2((R11))
	VFMADD231PD X3, X3, X1
	VMOVUPD X1, (DI)(DX*1)
	VADDPD X14, X1, X1
	ROOT2
	VMULPD (R14), X3, X3
	VMULPD X5, X3, X3
	VADDPD X3, X0, X0
	VMOVUPD X0, (DI)
	VFNMADD231PD (R14)(DX*1), X3, X2
	VMOVUPD X2, (R13)
	ADDQ $16, DI
	ADDQ $16, R11
	ADDQ $16, R12
	ADDQ $16, R13
	ADDQ $16, R14

step1:
	TESTQ $1, BX
	JEQ  stepNext
	VMOVSD (DI), X0
	VMOVSD (DI)(DX*1), X1
	VMOVSD (R13), X2
	VMOVSD (R11), X3
	VMOVSD (R12), X6
	GRADIENT2(X3)
	VFMADD231PD X3, X3, X1
	VMOVSD X1, (DI)(DX*1)
	VADDPD X14, X1, X1
	ROOT2
	VMULSD (R14), X3, X3
	VMULPD X5, X3, X3
	VADDPD X3, X0, X0
	VMOVSD X0, (DI)
	VFNMADD231SD (R14)(DX*1), X3, X2
	VMOVSD X2, (R13)

stepNext:
	ADDQ $24, SI
	ADDQ $8, R8
	ADDQ $8, R9
	ADDQ $8, R10
	DECQ CX
	JNE  stepRow
	VZEROUPPER
	RET

// func adagradGradientsAVX2(rows *[]float64, count, at, n int, x, basis, ridge, df, shrink, kappa *float64, active int, c *AdagradConstants, out *float64)
//
// df, shrink and kappa have room for a multiple of four outputs, and out for four g and four roots of every
// four outputs of a row. Of a row nothing is read behind the outputs in use, and nothing is written.
TEXT ·adagradGradientsAVX2(SB), NOSPLIT, $0-104
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
	VBROADCASTSD 0(BX), Y14
	VBROADCASTSD 8(BX), Y13
	VBROADCASTSD half<>(SB), Y8
	VBROADCASTSD guess<>(SB), Y7
	VXORPD Y15, Y15, Y15
	MOVQ active+80(FP), BX
	LEAQ -1(BX), R13
	ANDQ $3, R13             // the outputs of the last block, less one
	NEGQ R13
	LEAQ tail<>(SB), R15
	VMOVUPD 24(R15)(R13*8), Y2
	MOVQ out+96(FP), R15

gradientsRow:
	MOVQ (SI), DI
	ADDQ AX, DI
	VBROADCASTSD (R8), Y11
	VBROADCASTSD (R9), Y10
	VBROADCASTSD (R10), Y9
	VMULPD Y11, Y11, Y12
	MOVQ df+56(FP), R11
	MOVQ shrink+64(FP), R12
	MOVQ kappa+72(FP), R14
	MOVQ active+80(FP), BX
	SUBQ $4, BX
	JLE  gradientsLast

gradients4:
	VMOVUPD (DI), Y0
	VMOVUPD (DI)(DX*1), Y1
	VMOVUPD (R12), Y6
	GRADIENT4((R11))
	VMOVUPD Y3, (R15)
	VFMADD231PD Y3, Y3, Y1
	VADDPD Y14, Y1, Y1
	ROOT4
	VMOVUPD Y5, 32(R15)
	VMOVUPD (R14), Y0
	VFMADD231PD Y5, Y12, Y0
	VMOVUPD Y0, (R14)
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $32, R14
	ADDQ $64, R15
	SUBQ $4, BX
	JGT  gradients4

gradientsLast:
	VMASKMOVPD (DI), Y2, Y0
	VMASKMOVPD (DI)(DX*1), Y2, Y1
	VMOVUPD (R12), Y6
	GRADIENT4((R11))
	VMOVUPD Y3, (R15)
	VFMADD231PD Y3, Y3, Y1
	VADDPD Y14, Y1, Y1
	ROOT4
	VMOVUPD Y5, 32(R15)
	VMOVUPD (R14), Y0
	VFMADD231PD Y5, Y12, Y0
	VMOVUPD Y0, (R14)
	ADDQ $64, R15
	ADDQ $24, SI
	ADDQ $8, R8
	ADDQ $8, R9
	ADDQ $8, R10
	DECQ CX
	JNE  gradientsRow
	VZEROUPPER
	RET

// DESCEND4 makes the step of four outputs from g and the roots at R15: of w in Y0, m in Y1 and u in Y2.
#define DESCEND4 \
	VMOVUPD (R15), Y3         \
	VFMADD231PD Y3, Y3, Y1    \
	VMULPD (R11), Y3, Y3      \
	VMULPD 32(R15), Y3, Y3    \
	VADDPD Y3, Y0, Y0         \
	VFNMADD231PD (R12), Y3, Y2

// func adagradDescendAVX2(rows *[]float64, count, at, n int, minusEta, inverse *float64, active int, out *float64)
//
// minusEta and inverse have room for a multiple of four outputs. A store that is masked would be slow, and one of all
// four would reach over what follows: of less than four outputs two are stored, one, or both.
TEXT ·adagradDescendAVX2(SB), NOSPLIT, $0-64
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), AX
	SHLQ $3, AX
	MOVQ n+24(FP), DX
	SHLQ $3, DX
	MOVQ minusEta+32(FP), R8
	MOVQ inverse+40(FP), R9
	MOVQ active+48(FP), R10
	MOVQ out+56(FP), R15
	LEAQ tail<>(SB), R13
	LEAQ -1(R10), BX
	ANDQ $3, BX
	NEGQ BX
	VMOVUPD 24(R13)(BX*8), Y4

descendRow:
	MOVQ (SI), DI
	ADDQ AX, DI
	LEAQ (DI)(DX*2), R13
	MOVQ R8, R11
	MOVQ R9, R12
	MOVQ R10, BX
	SUBQ $4, BX
	JLT  descendTail

descend4:
	VMOVUPD (DI), Y0
	VMOVUPD (DI)(DX*1), Y1
	VMOVUPD (R13), Y2
	DESCEND4
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, (DI)(DX*1)
	VMOVUPD Y2, (R13)
	ADDQ $32, DI
	ADDQ $32, R13
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $64, R15
	SUBQ $4, BX
	JGE  descend4
	CMPQ BX, $-4
	JEQ  descendNext

descendTail:
	VMASKMOVPD (DI), Y4, Y0
	VMASKMOVPD (DI)(DX*1), Y4, Y1
	VMASKMOVPD (R13), Y4, Y2
	DESCEND4
	ADDQ $64, R15
	TESTQ $2, BX
	JEQ  descend1
	VMOVUPD X0, (DI)
	VMOVUPD X1, (DI)(DX*1)
	VMOVUPD X2, (R13)
	TESTQ $1, BX
	JEQ  descendNext
	VEXTRACTF128 $1, Y0, X0
	VEXTRACTF128 $1, Y1, X1
	VEXTRACTF128 $1, Y2, X2
	ADDQ $16, DI
	ADDQ $16, R13

descend1:
	VMOVSD X0, (DI)
	VMOVSD X1, (DI)(DX*1)
	VMOVSD X2, (R13)

descendNext:
	ADDQ $24, SI
	DECQ CX
	JNE  descendRow
	VZEROUPPER
	RET

// func adagradDescendRoomyAVX2(rows *[]float64, count, at, n int, minusEta, inverse, out *float64)
//
// Of at most four outputs, in rows in which all four of the last part can be stored. What follows a part gets what it
// holds: its g is 0, and the parts are stored in their order.
TEXT ·adagradDescendRoomyAVX2(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), AX
	SHLQ $3, AX
	MOVQ n+24(FP), DX
	SHLQ $3, DX
	MOVQ minusEta+32(FP), R8
	VMOVUPD (R8), Y7
	MOVQ inverse+40(FP), R9
	VMOVUPD (R9), Y8
	MOVQ out+48(FP), R10

roomyRow:
	MOVQ (SI), DI
	ADDQ AX, DI
	VMOVUPD (R10), Y3
	VMOVUPD (DI), Y0
	VMOVUPD (DI)(DX*1), Y1
	VMOVUPD (DI)(DX*2), Y2
	VFMADD231PD Y3, Y3, Y1
	VMULPD Y7, Y3, Y3
	VMULPD 32(R10), Y3, Y3
	VADDPD Y3, Y0, Y0
	VFNMADD231PD Y8, Y3, Y2
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, (DI)(DX*1)
	VMOVUPD Y2, (DI)(DX*2)
	ADDQ $24, SI
	ADDQ $64, R10
	DECQ CX
	JNE  roomyRow
	VZEROUPPER
	RET

// KAPPA adds the product of the first values of x and y to X14.
#define KAPPA(x, y) VFMADD231SD x, y, X14

// func inverseRootsAVX2(s, x *float64, count int, eps float64) (kappa float64)
//
// kappa is summed one by one, while the next roots are on their way.
TEXT ·inverseRootsAVX2(SB), NOSPLIT, $0-40
	MOVQ s+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ count+16(FP), BX
	VBROADCASTSD eps+24(FP), Y13
	VBROADCASTSD half<>(SB), Y8
	VBROADCASTSD guess<>(SB), Y7
	VXORPD Y15, Y15, Y15
	VXORPD X14, X14, X14
	LEAQ tail<>(SB), R15
	VMOVUPD (R15), Y2       // all four

roots4:
	CMPQ BX, $4
	JGE  rootsLoad
	MASK

rootsLoad:
	VMASKMOVPD (DI), Y2, Y1
	VMASKMOVPD (SI), Y2, Y9
	VMULPD Y9, Y9, Y9
	ROOT4
	VMASKMOVPD Y5, Y2, (DI)
	KAPPA(X5, X9)
	VPERMILPD $1, X5, X10
	VPERMILPD $1, X9, X11
	KAPPA(X10, X11)
	VEXTRACTF128 $1, Y5, X5
	VEXTRACTF128 $1, Y9, X9
	KAPPA(X5, X9)
	VPERMILPD $1, X5, X10
	VPERMILPD $1, X9, X11
	KAPPA(X10, X11)
	ADDQ $32, DI
	ADDQ $32, SI
	SUBQ $4, BX
	JGT  roots4
	VMOVSD X14, kappa+32(FP)
	VZEROUPPER
	RET

// The loops for one output, where the compiler would look before every sum
// whether the processor can round once.

// func sum1FMA(rows *[]float64, count, at int, x, basis, f, lag, q *float64)
TEXT ·sum1FMA(SB), NOSPLIT, $0-64
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), R8
	MOVQ x+24(FP), DX
	MOVQ basis+32(FP), BX
	MOVQ f+40(FP), R10
	MOVQ lag+48(FP), R11
	MOVQ q+56(FP), R12
	VMOVSD (R10), X0
	VMOVSD (R11), X1
	VMOVSD (R12), X2
	XORQ R9, R9

sums1:
	MOVQ (SI), AX
	ADDQ $24, SI
	VMOVSD (AX)(R8*8), X3           // w
	VMOVSD (DX)(R9*8), X4           // x
	VMULSD (BX)(R9*8), X3, X5       // basis w
	VFMADD231SD X3, X4, X0
	VFMADD231SD 16(AX)(R8*8), X4, X1
	VFMADD231SD X3, X5, X2
	INCQ R9
	CMPQ R9, CX
	JLT  sums1
	VMOVSD X0, (R10)
	VMOVSD X1, (R11)
	VMOVSD X2, (R12)
	RET

// func adagradGradients1FMA(rows *[]float64, count, at int, x, basis, ridge *float64, df, shrink, start float64, grad, s *float64)
TEXT ·adagradGradients1FMA(SB), NOSPLIT, $0-88
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), R8
	MOVQ x+24(FP), DX
	MOVQ basis+32(FP), BX
	MOVQ ridge+40(FP), R10
	VMOVSD df+48(FP), X0
	VMOVSD shrink+56(FP), X1
	VMOVSD start+64(FP), X2
	MOVQ grad+72(FP), R11
	MOVQ s+80(FP), R12
	XORQ R9, R9

gradients:
	MOVQ (SI), AX
	ADDQ $24, SI
	VMOVSD (R10)(R9*8), X3
	VFMADD231SD (BX)(R9*8), X1, X3  // shrink basis + ridge
	VMULSD (DX)(R9*8), X0, X4       // df x
	VFMADD231SD (AX)(R8*8), X3, X4  // g
	VMOVSD 8(AX)(R8*8), X5
	VFMADD231SD X4, X4, X5          // m + g^2
	VADDSD X5, X2, X5
	VMOVSD X4, (R11)(R9*8)
	VMOVSD X5, (R12)(R9*8)
	INCQ R9
	CMPQ R9, CX
	JLT  gradients
	RET

// func adagradStep1FMA(rows *[]float64, count, at int, grad, r *float64, minusEta, inverse float64)
TEXT ·adagradStep1FMA(SB), NOSPLIT, $0-56
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ at+16(FP), R8
	MOVQ grad+24(FP), DX
	MOVQ r+32(FP), BX
	VMOVSD minusEta+40(FP), X0
	VMOVSD inverse+48(FP), X1
	XORQ R9, R9

step1:
	MOVQ (SI), AX
	ADDQ $24, SI
	VMOVSD (DX)(R9*8), X2           // g
	VMOVSD 8(AX)(R8*8), X3
	VFMADD231SD X2, X2, X3
	VMULSD X2, X0, X4
	VMULSD (BX)(R9*8), X4, X4       // delta
	VADDSD (AX)(R8*8), X4, X5
	VMOVSD 16(AX)(R8*8), X6
	VFNMADD231SD X1, X4, X6
	VMOVSD X3, 8(AX)(R8*8)
	VMOVSD X5, (AX)(R8*8)
	VMOVSD X6, 16(AX)(R8*8)
	INCQ R9
	CMPQ R9, CX
	JLT  step1
	RET
