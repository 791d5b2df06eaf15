#include "textflag.h"

DATA zeros<>+0(SB)/8, $0x3030303030303030
GLOBL zeros<>(SB), RODATA|NOPTR, $8
DATA nines<>+0(SB)/8, $0x0909090909090909
GLOBL nines<>(SB), RODATA|NOPTR, $8

DATA blanks<>+0(SB)/8, $0x2020202020202020
GLOBL blanks<>(SB), RODATA|NOPTR, $8

// Neighboring digits, pairs and quadruples of digits become one number.
DATA tens<>+0(SB)/8, $0x010a010a010a010a
GLOBL tens<>(SB), RODATA|NOPTR, $8
DATA hundreds<>+0(SB)/8, $0x0001006400010064
GLOBL hundreds<>(SB), RODATA|NOPTR, $8
DATA tenThousands<>+0(SB)/8, $0x0001271000012710
GLOBL tenThousands<>(SB), RODATA|NOPTR, $8

DATA powers<>+0(SB)/8, $1.0
DATA powers<>+8(SB)/8, $10.0
DATA powers<>+16(SB)/8, $100.0
DATA powers<>+24(SB)/8, $1000.0
DATA powers<>+32(SB)/8, $10000.0
DATA powers<>+40(SB)/8, $100000.0
DATA powers<>+48(SB)/8, $1000000.0
DATA powers<>+56(SB)/8, $10000000.0
DATA powers<>+64(SB)/8, $100000000.0
GLOBL powers<>(SB), RODATA|NOPTR, $72

// DIGITS sets w to the first count of the eight digits at place, in its highest
// bytes, with zeros before them. bits is 64 - 8 count.
#define DIGITS(place, count, bits, w) \
	MOVQ place, w                \
	XORQ zeros<>(SB), w          \
	MOVQ $64, bits               \
	LEAQ (count*8), count        \
	SUBQ count, bits             \
	SHLXQ bits, w, w

// func usualEntriesAVX2(data *byte, size int, index *uint32, value *float64, room int, first, mask uint64, last int64) (n, end int, ascending bool)
TEXT ·usualEntriesAVX2(SB), NOSPLIT, $0-81
	MOVQ data+0(FP), SI
	MOVQ size+8(FP), R8
	LEAQ -32(SI)(R8*1), R8 // the last place with 32 bytes
	MOVQ index+16(FP), DI
	MOVQ value+24(FP), R9
	MOVQ room+32(FP), R10
	LEAQ (DI)(R10*4), R10  // the end of index
	MOVQ last+56(FP), R13
	MOVQ $1, BX            // ascending
	VPBROADCASTQ zeros<>(SB), Y15
	VPBROADCASTQ nines<>(SB), Y14
	VPBROADCASTQ tens<>(SB), Y13
	VPBROADCASTQ hundreds<>(SB), Y12
	VPBROADCASTQ tenThousands<>(SB), Y11
	VPBROADCASTQ blanks<>(SB), Y10

entry:
	CMPQ SI, R8
	JHI  done
	CMPQ DI, R10
	JAE  done
	CMPB (SI), $' '
	JNE  done

	// AX has a bit for each of the 31 bytes after the blank that is no digit.
	VMOVDQU (SI), Y0
	VPCMPEQB Y10, Y0, Y4
	VPSUBB  Y15, Y0, Y0
	VPMINUB Y14, Y0, Y1
	VPCMPEQB Y1, Y0, Y1
	VPMOVMSKB Y1, AX
	NOTL AX
	SHRL $1, AX

	TZCNTL AX, CX
	LEAL  -1(CX), DX
	CMPL  DX, $6
	JHI   done
	CMPB  1(SI)(CX*1), $':'
	JNE   done
	SHRXL CX, AX, AX
	SHRL  $1, AX
	LEAQ  2(SI)(CX*1), R11    // the value
	DIGITS(1(SI), CX, DX, R14)
	VMOVQ R14, X1

	XORL  DX, DX              // 1 for a minus sign
	CMPB  (R11), $'-'
	SETEQ DX
	ADDQ  DX, R11
	SHRXL DX, AX, AX
	SHLQ  $63, DX
	VMOVQ DX, X5

	// DX is the place of the next blank. The next entry begins there, so the processor can start it before it knows how
	// many digits this entry has.
	VPMOVMSKB Y4, DX
	SHRL  $1, DX
	TZCNTL DX, DX
	LEAQ  1(SI)(DX*1), DX

	TZCNTL AX, CX
	LEAL  -1(CX), R14
	CMPL  R14, $6
	JHI   done
	SHRXL CX, AX, AX
	SHRL  $1, AX
	LEAQ  (R11)(CX*1), R12    // after the whole part
	DIGITS((R11), CX, R14, R15)
	VPINSRQ $1, R15, X1, X1
	XORL  R15, R15            // the fraction
	XORL  R14, R14            // its number of digits
	CMPQ  R12, DX
	JEQ   convert
	CMPB  (R12), $'.'
	JNE   done
	TZCNTL AX, CX
	LEAL  -1(CX), R14
	CMPL  R14, $7
	JHI   done
	MOVQ  CX, R14
	DIGITS(1(R12), CX, R11, R15)
	LEAQ  1(R12)(R14*1), R12
	CMPQ  R12, DX
	JNE   done

convert:
	VMOVQ R15, X2
	VINSERTI128 $1, X2, Y1, Y1
	VPMADDUBSW Y13, Y1, Y1
	VPMADDWD Y12, Y1, Y1
	VPACKUSDW Y1, Y1, Y1
	VPMADDWD Y11, Y1, Y1
	VMOVD X1, AX
	SUBQ  first+40(FP), AX
	CMPQ  AX, mask+48(FP)
	JHI   done
	VEXTRACTI128 $1, Y1, X2
	VPSRLQ $32, X1, X1
	VCVTDQ2PD X1, X1
	VCVTDQ2PD X2, X2
	LEAQ  powers<>(SB), R15
	VMOVSD (R15)(R14*8), X3
	VMULSD X3, X1, X1
	VADDSD X2, X1, X1
	VDIVSD X3, X1, X1         // only the division rounds
	VORPD X5, X1, X1
	MOVL  AX, (DI)
	VMOVSD X1, (R9)
	ADDQ  $4, DI
	ADDQ  $8, R9
	MOVQ  DX, SI
	CMPQ  AX, R13
	MOVQ  AX, R13
	JGT   entry
	XORL  BX, BX
	JMP   entry

done:
	VZEROUPPER
	MOVQ DI, AX
	SUBQ index+16(FP), AX
	SHRQ $2, AX
	MOVQ AX, n+64(FP)
	SUBQ data+0(FP), SI
	MOVQ SI, end+72(FP)
	MOVB BX, ascending+80(FP)
	RET
