#include "textflag.h"

// Constants of all loops: SI is the index of the next entry, CX how many are left,
// DI their values. Every loop is there three times, for values that are all 1,
// float32 and float64: the macros take the instruction that loads them into Y7.

#define LOAD32 VCVTPS2PD (DI), Y7; ADDQ $16, DI
#define LOAD64 VMOVUPD (DI), Y7; ADDQ $32, DI

// INDEX loads the columns of four entries.
#define INDEX \
	MOVL (SI), R9    \
	MOVL 4(SI), R10  \
	MOVL 8(SI), R11  \
	MOVL 12(SI), R12 \
	ADDQ $16, SI

// PAIRS makes them offsets of pairs.
#define PAIRS \
	SHLQ $4, R9  \
	SHLQ $4, R10 \
	SHLQ $4, R11 \
	SHLQ $4, R12

// VARIANCE sets Y8 to x (c1 + c2 x), c1 and c2 being in Y13 and Y14.
#define VARIANCE \
	VMOVAPD Y13, Y8         \
	VFMADD231PD Y14, Y7, Y8 \
	VMULPD Y7, Y8, Y8

// ONES sets Y7 to 1.
#define ONES \
	MOVQ $0x3ff0000000000000, R9 \
	MOVQ R9, X7                  \
	VBROADCASTSD X7, Y7

// ACROSS adds up the four of y as (0 + 2) + (1 + 3) in x, its low half.
#define ACROSS(y, x) \
	VEXTRACTF128 $1, y, X8 \
	VADDPD X8, x, x        \
	VUNPCKHPD x, x, X8     \
	VADDSD X8, x, x

#define GATHER \
	INDEX                                 \
	PAIRS                                 \
	VMOVUPD (BX)(R9*1), X3                \
	VMOVUPD (BX)(R10*1), X4               \
	VINSERTF128 $1, (BX)(R11*1), Y3, Y3   \
	VINSERTF128 $1, (BX)(R12*1), Y4, Y4   \
	VUNPCKLPD Y4, Y3, Y5                  \
	VUNPCKHPD Y4, Y3, Y6                  \
	VARIANCE                              \
	VMULPD Y8, Y6, Y6                     \
	VMOVUPD Y6, (R8)                      \
	ADDQ $32, R8                          \
	VFMADD231PD Y7, Y5, Y0                \
	VFMADD231PD Y6, Y5, Y1                \
	VMULPD Y8, Y5, Y8                     \
	VFMADD231PD Y8, Y5, Y2                \
	SUBQ $4, CX

// func gatherAVX2(index *uint32, n int, values unsafe.Pointer, kind int, p, z *float64, c1, c2 float64) (s, t, u float64)
TEXT ·gatherAVX2(SB), NOSPLIT, $0-88
	MOVQ index+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ values+16(FP), DI
	MOVQ kind+24(FP), DX
	MOVQ p+32(FP), BX
	MOVQ z+40(FP), R8
	VBROADCASTSD c1+48(FP), Y13
	VBROADCASTSD c2+56(FP), Y14
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	CMPQ DX, $1
	JEQ  gather32
	JGT  gather64
	ONES

gather1:
	GATHER
	JNE gather1
	JMP gathered

gather32:
	LOAD32
	GATHER
	JNE gather32
	JMP gathered

gather64:
	LOAD64
	GATHER
	JNE gather64

gathered:
	ACROSS(Y0, X0)
	ACROSS(Y1, X1)
	ACROSS(Y2, X2)
	VMOVSD X0, s+64(FP)
	VMOVSD X1, t+72(FP)
	VMOVSD X2, u+80(FP)
	VZEROUPPER
	RET

#define ADD1(d, x) \
	VADDSD (BX)(d*8), x, x \
	VMOVSD x, (BX)(d*8)

#define MIXED \
	INDEX                     \
	VMULPD Y7, Y13, Y0        \
	VFMADD231PD (R8), Y14, Y0 \
	ADDQ $32, R8              \
	VEXTRACTF128 $1, Y0, X2   \
	VUNPCKHPD X0, X0, X1      \
	VUNPCKHPD X2, X2, X3      \
	ADD1(R9, X0)              \
	ADD1(R10, X1)             \
	ADD1(R11, X2)             \
	ADD1(R12, X3)             \
	SUBQ $4, CX

// func addMixedAVX2(index *uint32, n int, values unsafe.Pointer, kind int, acc, z *float64, a, b float64)
TEXT ·addMixedAVX2(SB), NOSPLIT, $0-64
	MOVQ index+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ values+16(FP), DI
	MOVQ kind+24(FP), DX
	MOVQ acc+32(FP), BX
	MOVQ z+40(FP), R8
	VBROADCASTSD a+48(FP), Y13
	VBROADCASTSD b+56(FP), Y14
	CMPQ DX, $1
	JEQ  mixed32
	JGT  mixed64
	ONES

mixed1:
	MIXED
	JNE mixed1
	VZEROUPPER
	RET

mixed32:
	LOAD32
	MIXED
	JNE mixed32
	VZEROUPPER
	RET

mixed64:
	LOAD64
	MIXED
	JNE mixed64
	VZEROUPPER
	RET

#define ADD2(d, x) \
	VADDPD (BX)(d*1), x, x \
	VMOVUPD x, (BX)(d*1)

#define PAIR \
	INDEX                   \
	PAIRS                   \
	VARIANCE                \
	VMULPD Y7, Y11, Y0      \
	VMULPD Y8, Y12, Y1      \
	VUNPCKLPD Y1, Y0, Y2    \
	VUNPCKHPD Y1, Y0, Y3    \
	VEXTRACTF128 $1, Y2, X4 \
	VEXTRACTF128 $1, Y3, X5 \
	ADD2(R9, X2)            \
	ADD2(R10, X3)           \
	ADD2(R11, X4)           \
	ADD2(R12, X5)           \
	SUBQ $4, CX

// func addPairAVX2(index *uint32, n int, values unsafe.Pointer, kind int, acc *float64, a, b, c1, c2 float64)
TEXT ·addPairAVX2(SB), NOSPLIT, $0-72
	MOVQ index+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ values+16(FP), DI
	MOVQ kind+24(FP), DX
	MOVQ acc+32(FP), BX
	VBROADCASTSD a+40(FP), Y11
	VBROADCASTSD b+48(FP), Y12
	VBROADCASTSD c1+56(FP), Y13
	VBROADCASTSD c2+64(FP), Y14
	CMPQ DX, $1
	JEQ  pair32
	JGT  pair64
	ONES

pair1:
	PAIR
	JNE pair1
	VZEROUPPER
	RET

pair32:
	LOAD32
	PAIR
	JNE pair32
	VZEROUPPER
	RET

pair64:
	LOAD64
	PAIR
	JNE pair64
	VZEROUPPER
	RET
