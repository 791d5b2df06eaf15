#include "textflag.h"

// C is constant i of logisticConstants, eight times.
#define C(i) (64*(i))(SI)

// HORNER is a step of a polynomial in x.
#define HORNER(i, x, p) VFMADD213PD C(i), x, p

// TAIL sets s, inverse, e and tail of logisticTermsGo for the terms whose t^2 are at offset at, from abs and
// v, and cdf to 1 - tail. a, y, n and den are room; one becomes 1.
#define TAIL(at, s, inverse, a, y, n, e, tail, den, one, cdf, abs, v) \
	VADDPD at(BX), v, s          \
	VSQRTPD s, s                 \
	VMOVUPD C(1), one            \
	VDIVPD s, one, inverse       \
	VMULPD inverse, abs, a       \
	VMOVUPD C(2), y              \
	VMINPD a, y, a               \
	VMULPD C(0), a, y            \
	VMULPD a, y, y               \
	VMOVUPD C(3), n              \
	VFMADD213PD C(4), y, n       \
	VSUBPD C(4), n, e            \
	VMOVUPD C(5), tail           \
	VFNMSUB213PD y, e, tail      \
	VFNMADD231PD C(6), e, tail   \
	VMOVUPD C(8), e              \
	HORNER(9, tail, e)           \
	HORNER(10, tail, e)          \
	HORNER(11, tail, e)          \
	HORNER(12, tail, e)          \
	HORNER(13, tail, e)          \
	HORNER(14, tail, e)          \
	HORNER(15, tail, e)          \
	HORNER(16, tail, e)          \
	HORNER(0, tail, e)           \
	HORNER(1, tail, e)           \
	HORNER(1, tail, e)           \
	VPSLLQ $52, n, n             \
	VPADDQ n, e, e               \
	VMOVUPD C(17), tail          \
	VMOVUPD C(24), den           \
	HORNER(18, a, tail)          \
	HORNER(25, a, den)           \
	HORNER(19, a, tail)          \
	HORNER(26, a, den)           \
	HORNER(20, a, tail)          \
	HORNER(27, a, den)           \
	HORNER(21, a, tail)          \
	HORNER(28, a, den)           \
	HORNER(22, a, tail)          \
	HORNER(29, a, den)           \
	HORNER(23, a, tail)          \
	HORNER(30, a, den)           \
	HORNER(31, a, den)           \
	VDIVPD den, tail, tail       \
	VMULPD tail, e, tail         \
	VSUBPD tail, one, cdf

// PARTS sets value and e to what the sums of value and 2 dv take of a term; that of du takes cdf. u
// is as for logisticTermsGo.
#define PARTS(s, inverse, value, e, cdf, u) \
	VMULPD C(7), e, e            \
	VMULPD cdf, u, value         \
	VFMADD231PD e, s, value      \
	VMULPD inverse, e, e

// ADD adds the parts of four terms, whose p are at offset at, to the sums in Y10, Y11 and Y12.
#define ADD(at, value, cdf, e) \
	VMOVUPD at(AX), Y8           \
	VFMADD231PD Y8, value, Y10   \
	VFMADD231PD Y8, cdf, Y11     \
	VFMADD231PD Y8, e, Y12

// TERMS adds four terms at offset at. u, |u| and v are in Y15, Y14 and Y13.
#define TERMS(at) \
	TAIL(at, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y8, Y9, Y7, Y14, Y13) \
	VXORPD Y8, Y8, Y8            \
	VCMPPD $14, Y8, Y15, Y8      \
	VBLENDVPD Y8, Y7, Y6, Y6     \
	PARTS(Y0, Y1, Y2, Y5, Y6, Y15) \
	ADD(at, Y2, Y6, Y5)

// ACROSS leaves in X0 the sum of the four values of y.
#define ACROSS(y, x) \
	VEXTRACTF128 $1, y, X0 \
	VADDPD X0, x, X0       \
	VUNPCKHPD X0, X0, X1   \
	VADDSD X1, X0, X0

// func logisticTermsFMA(u, v float64, p, t2 *[8]float64, constants *[32][8]float64, eight bool) (value, du, dv float64)
//
// See logisticTermsGo: every instruction is one of its operations, of four terms at a time or, with AVX-512,
// of eight.
TEXT ·logisticTermsFMA(SB), NOSPLIT, $0-72
	MOVQ p+16(FP), AX
	MOVQ t2+24(FP), BX
	MOVQ constants+32(FP), SI
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	VXORPD Y12, Y12, Y12
	CMPB eight+40(FP), $0
	JNE  all
	VBROADCASTSD u+0(FP), Y15
	VBROADCASTSD v+8(FP), Y13
	VPCMPEQQ Y14, Y14, Y14
	VPSRLQ $1, Y14, Y14
	VANDPD Y15, Y14, Y14        // |u|
	TERMS(0)
	TERMS(32)
	JMP  across

all:
	VBROADCASTSD u+0(FP), Z15
	VBROADCASTSD v+8(FP), Z13
	VPSLLQ $1, Z15, Z14
	VPSRLQ $1, Z14, Z14         // |u|
	TAIL(0, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z8, Z9, Z7, Z14, Z13)
	VPXORQ Z8, Z8, Z8
	VCMPPD $14, Z8, Z15, K1
	VBLENDMPD Z7, Z6, K1, Z6
	PARTS(Z0, Z1, Z2, Z5, Z6, Z15)
	ADD(0, Y2, Y6, Y5)
	VEXTRACTF64X4 $1, Z2, Y2
	VEXTRACTF64X4 $1, Z6, Y6
	VEXTRACTF64X4 $1, Z5, Y5
	ADD(32, Y2, Y6, Y5)

across:
	ACROSS(Y10, X10)
	VMOVSD X0, value+48(FP)
	ACROSS(Y11, X11)
	VMOVSD X0, du+56(FP)
	ACROSS(Y12, X12)
	VMULSD C(0), X0, X0
	VMOVSD X0, dv+64(FP)
	VZEROUPPER
	RET

// func expsAVX2(x *float64, fours int, constants *[15][8]float64) (done int)
//
// It does what archExp of package math does with FMA, four at a time, and stops at four of which one is beyond
// constant 13.
TEXT ·expsAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), DI
	MOVQ fours+8(FP), CX
	MOVQ constants+16(FP), SI
	XORQ AX, AX
	VPCMPEQQ Y14, Y14, Y14
	VPSRLQ $1, Y14, Y14
	VMOVUPD C(13), Y15

four:
	CMPQ AX, CX
	JGE  fourDone
	VMOVUPD (DI), Y0
	VANDPD Y0, Y14, Y1          // |x|
	VCMPPD $2, Y15, Y1, Y1
	VMOVMSKPD Y1, DX
	CMPL DX, $15
	JNE  fourDone
	VMULPD C(0), Y0, Y1
	VCVTPD2DQY Y1, X2           // the exponent
	VCVTDQ2PD X2, Y1
	VMOVUPD C(1), Y3
	VFNMADD231PD Y3, Y1, Y0
	VMOVUPD C(2), Y3
	VFNMADD231PD Y3, Y1, Y0
	VMULPD C(3), Y0, Y0
	VMOVUPD C(4), Y1
	HORNER(5, Y0, Y1)
	HORNER(6, Y0, Y1)
	HORNER(7, Y0, Y1)
	HORNER(8, Y0, Y1)
	HORNER(9, Y0, Y1)
	HORNER(10, Y0, Y1)
	HORNER(11, Y0, Y1)
	VMULPD Y1, Y0, Y0
	VADDPD C(12), Y0, Y1
	VMULPD Y1, Y0, Y0
	VADDPD C(12), Y0, Y1
	VMULPD Y1, Y0, Y0
	VADDPD C(12), Y0, Y1
	VMULPD Y1, Y0, Y0
	VADDPD C(12), Y0, Y1
	HORNER(11, Y1, Y0)
	VPMOVSXDQ X2, Y2
	VPADDQ C(14), Y2, Y2
	VPSLLQ $52, Y2, Y2
	VMULPD Y2, Y0, Y0
	VMOVUPD Y0, (DI)
	ADDQ $32, DI
	INCQ AX
	JMP  four

fourDone:
	MOVQ AX, done+24(FP)
	VZEROUPPER
	RET
