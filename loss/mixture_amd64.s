#include "textflag.h"

// C is constant i of logisticConstants, four times.
#define C(i) (32*(i))(SI)

// HORNER is a step of a polynomial in x.
#define HORNER(i, x, p) VFMADD213PD C(i), x, p

// TERMS adds four terms, whose p and t^2 are at offset at, to the sums of value, du
// and 2 dv in Y10, Y11 and Y12. u, |u| and v are in Y15, Y14 and Y13.
#define TERMS(at) \
	VADDPD at(BX), Y13, Y0       \
	VSQRTPD Y0, Y0               \
	VMOVUPD C(1), Y9             \
	VDIVPD Y0, Y9, Y1            \
	VMULPD Y1, Y14, Y2           \
	VMOVUPD C(2), Y3             \
	VMINPD Y2, Y3, Y2            \
	VMULPD C(0), Y2, Y3          \
	VMULPD Y2, Y3, Y3            \
	VMOVUPD C(3), Y4             \
	VFMADD213PD C(4), Y3, Y4     \
	VSUBPD C(4), Y4, Y5          \
	VMOVUPD C(5), Y6             \
	VFNMSUB213PD Y3, Y5, Y6      \
	VFNMADD231PD C(6), Y5, Y6    \
	VMOVUPD C(8), Y5             \
	HORNER(9, Y6, Y5)            \
	HORNER(10, Y6, Y5)           \
	HORNER(11, Y6, Y5)           \
	HORNER(12, Y6, Y5)           \
	HORNER(13, Y6, Y5)           \
	HORNER(14, Y6, Y5)           \
	HORNER(15, Y6, Y5)           \
	HORNER(16, Y6, Y5)           \
	HORNER(0, Y6, Y5)            \
	HORNER(1, Y6, Y5)            \
	HORNER(1, Y6, Y5)            \
	VPSLLQ $52, Y4, Y4           \
	VPADDQ Y4, Y5, Y5            \
	VMOVUPD C(17), Y6            \
	VMOVUPD C(24), Y8            \
	HORNER(18, Y2, Y6)           \
	HORNER(25, Y2, Y8)           \
	HORNER(19, Y2, Y6)           \
	HORNER(26, Y2, Y8)           \
	HORNER(20, Y2, Y6)           \
	HORNER(27, Y2, Y8)           \
	HORNER(21, Y2, Y6)           \
	HORNER(28, Y2, Y8)           \
	HORNER(22, Y2, Y6)           \
	HORNER(29, Y2, Y8)           \
	HORNER(23, Y2, Y6)           \
	HORNER(30, Y2, Y8)           \
	HORNER(31, Y2, Y8)           \
	VDIVPD Y8, Y6, Y6            \
	VMULPD Y6, Y5, Y6            \
	VSUBPD Y6, Y9, Y7            \
	VXORPD Y8, Y8, Y8            \
	VCMPPD $14, Y8, Y15, Y8      \
	VBLENDVPD Y8, Y7, Y6, Y6     \
	VMULPD C(7), Y5, Y5          \
	VMOVUPD at(AX), Y8           \
	VMULPD Y6, Y15, Y2           \
	VFMADD231PD Y5, Y0, Y2       \
	VFMADD231PD Y8, Y2, Y10      \
	VFMADD231PD Y8, Y6, Y11      \
	VMULPD Y1, Y5, Y5            \
	VFMADD231PD Y8, Y5, Y12

// ACROSS leaves in X0 the sum of the four values of y.
#define ACROSS(y, x) \
	VEXTRACTF128 $1, y, X0 \
	VADDPD X0, x, X0       \
	VUNPCKHPD X0, X0, X1   \
	VADDSD X1, X0, X0

// func logisticTermsAVX2(u, v float64, p, t2 *[8]float64, constants *[32][4]float64) (value, du, dv float64)
//
// See logisticTermsGo: every instruction is one of its operations.
TEXT ·logisticTermsAVX2(SB), NOSPLIT, $0-64
	VBROADCASTSD u+0(FP), Y15
	VBROADCASTSD v+8(FP), Y13
	MOVQ p+16(FP), AX
	MOVQ t2+24(FP), BX
	MOVQ constants+32(FP), SI
	VPCMPEQQ Y14, Y14, Y14
	VPSRLQ $1, Y14, Y14
	VANDPD Y15, Y14, Y14        // |u|
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	VXORPD Y12, Y12, Y12
	TERMS(0)
	TERMS(32)
	ACROSS(Y10, X10)
	VMOVSD X0, value+40(FP)
	ACROSS(Y11, X11)
	VMOVSD X0, du+48(FP)
	ACROSS(Y12, X12)
	VMULSD C(0), X0, X0
	VMOVSD X0, dv+56(FP)
	VZEROUPPER
	RET

// func detectAVX2() bool
TEXT ·detectAVX2(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JLT  no
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18001000, CX        // OSXSAVE, AVX and FMA
	CMPL CX, $0x18001000
	JNE  no
	XORL CX, CX
	XGETBV
	ANDL $6, AX                 // the system saves XMM and YMM
	CMPL AX, $6
	JNE  no
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $5, BX
	ANDL $1, BX
	MOVB BX, ret+0(FP)

no:
	RET
