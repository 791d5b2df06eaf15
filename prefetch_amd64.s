#include "textflag.h"

// func prefetch(rows **float64, count, size int)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ rows+0(FP), SI
	MOVQ count+8(FP), CX
	MOVQ size+16(FP), DX
	TESTQ CX, CX
	JEQ  done

row:
	MOVQ (SI), AX
	LEAQ (AX)(DX*1), BX

line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, BX
	JLT  line
	ADDQ $8, SI
	DECQ CX
	JNE  row

done:
	RET
