#include "textflag.h"

// func prefetch(slots *uint32, count int, blocks *tableBlock, perBits, size, bytes int)
TEXT ·prefetch(SB), NOSPLIT, $0-48
	MOVQ slots+0(FP), SI
	MOVQ count+8(FP), R8
	MOVQ blocks+16(FP), R9
	MOVQ perBits+24(FP), CX
	MOVQ size+32(FP), R10
	MOVQ bytes+40(FP), R11
	MOVQ $1, R12
	SHLQ CX, R12
	DECQ R12                // mask of a row in its block

row:
	MOVL (SI), AX
	ADDQ $4, SI
	SUBL $1, AX
	JCS  next               // it was 0
	MOVQ AX, DX
	ANDQ R12, DX
	IMULQ R10, DX
	SHRQ CX, AX
	SHLQ $5, AX             // of a tableBlock's four words the first is the address
	ADDQ (R9)(AX*1), DX
	LEAQ (DX)(R11*1), BX

line:
	PREFETCHT0 (DX)
	ADDQ $64, DX
	CMPQ DX, BX
	JLT  line

next:
	DECQ R8
	JNE  row
	RET

// func prefetchLines(p *float64, bytes int)
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DX
	MOVQ bytes+8(FP), BX
	ADDQ DX, BX

lines:
	PREFETCHT0 (DX)
	ADDQ $64, DX
	CMPQ DX, BX
	JLT  lines
	RET
