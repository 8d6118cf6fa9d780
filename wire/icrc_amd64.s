// The ICRC of a packet in words of 64 bytes; icrc_amd64.go has the mathematics and the tables.
//
// Stages: the head and its masks → the first two words, where head and body meet → up to eight words: each times its power
// of x → more: groups of four fold into the next group, the last eight words times their powers of x → 95 bits → 32 bits.

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// 0, 1, … 15
DATA iota<>+0(SB)/8, $0x0000000100000000
DATA iota<>+8(SB)/8, $0x0000000300000002
DATA iota<>+16(SB)/8, $0x0000000500000004
DATA iota<>+24(SB)/8, $0x0000000700000006
DATA iota<>+32(SB)/8, $0x0000000900000008
DATA iota<>+40(SB)/8, $0x0000000b0000000a
DATA iota<>+48(SB)/8, $0x0000000d0000000c
DATA iota<>+56(SB)/8, $0x0000000f0000000e
GLOBL iota<>(SB), RODATA|NOPTR, $64

#define XOR3 $0x96 // the truth table of a ^ b ^ c

// FOLD folds the group of words w 4 (matrix Z28), 5 (Z29), 7 (Z30) and 8 words on (Z31). c is what earlier words gave to
// the next group: with the data d added it is that group, complete. w becomes what is known of the group after.
#define FOLD(w0, w1, w2, w3, c0, c1, c2, c3, d0, d1, d2, d3) \
	VGF2P8AFFINEQB $0, Z28, w0, Z9; \
	VGF2P8AFFINEQB $0, Z29, w0, Z10; \
	VGF2P8AFFINEQB $0, Z30, w0, Z11; \
	VGF2P8AFFINEQB $0, Z31, w0, w0; \
	VPTERNLOGD     XOR3, d0, Z9, c0; \
	VPTERNLOGD     XOR3, d1, Z10, c1; \
	VPTERNLOGD     XOR3, d3, Z11, c3; \
	VGF2P8AFFINEQB $0, Z28, w1, Z9; \
	VGF2P8AFFINEQB $0, Z29, w1, Z10; \
	VGF2P8AFFINEQB $0, Z30, w1, Z11; \
	VGF2P8AFFINEQB $0, Z31, w1, w1; \
	VPXORD         Z9, c1, c1; \
	VPTERNLOGD     XOR3, d2, Z10, c2; \
	VGF2P8AFFINEQB $0, Z28, w2, Z12; \
	VGF2P8AFFINEQB $0, Z29, w2, Z13; \
	VGF2P8AFFINEQB $0, Z30, w2, Z14; \
	VGF2P8AFFINEQB $0, Z31, w2, w2; \
	VPXORD         Z12, c2, c2; \
	VPXORD         Z14, w1, w1; \
	VGF2P8AFFINEQB $0, Z28, w3, Z12; \
	VGF2P8AFFINEQB $0, Z29, w3, Z10; \
	VGF2P8AFFINEQB $0, Z30, w3, Z14; \
	VGF2P8AFFINEQB $0, Z31, w3, w3; \
	VPTERNLOGD     XOR3, Z13, Z12, c3; \
	VPTERNLOGD     XOR3, Z11, Z10, w0; \
	VPXORD         Z14, w2, w2

// TIMES adds to Z8 the word w times the powers of x at p.
#define TIMES(w, p) \
	VMOVDQU64  p, Z9; \
	VPCLMULQDQ $0x00, Z9, w, Z10; \
	VPCLMULQDQ $0x11, Z9, w, Z11; \
	VPTERNLOGD XOR3, Z10, Z11, Z8

// COPY copies the next group from where the payload is (R14 away) to where it goes, by way of Z20 to Z23.
#define COPY \
	VMOVDQU64 (R10)(R14*1), Z20; \
	VMOVDQU64 64(R10)(R14*1), Z21; \
	VMOVDQU64 128(R10)(R14*1), Z22; \
	VMOVDQU64 192(R10)(R14*1), Z23; \
	VMOVDQU64 Z20, (R10); \
	VMOVDQU64 Z21, 64(R10); \
	VMOVDQU64 Z22, 128(R10); \
	VMOVDQU64 Z23, 192(R10)

// func icrcAVX512(cover *[16]uint32, head *byte, headLen int, body *byte, n int, payload *byte, at int) uint32
TEXT ·icrcAVX512(SB), NOSPLIT, $0-60
	MOVQ cover+0(FP), AX
	MOVQ head+8(FP), SI
	MOVQ headLen+16(FP), DX
	MOVQ body+24(FP), DI
	MOVQ n+32(FP), CX

	// R14: how far from its place the payload is; 0: there, nothing is copied.
	XORL  R14, R14
	MOVQ  payload+40(FP), R12
	TESTQ R12, R12
	JEQ   head
	MOVQ  at+48(FP), R14
	ADDQ  DI, R14
	SUBQ  R14, R12
	MOVQ  R12, R14

head:

	// Z1: the head as units of four bytes, the BTH's masks behind it, and the FF as unit 15.
	CMPQ        DX, $32
	JAE         head6
	MOVL        $0x7f, R12
	KMOVW       R12, K1
	VMOVDQU32.Z (SI), K1, Y1
	JMP         masks

head6:
	VMOVDQU      (SI), Y1
	VINSERTI32X4 $2, 32(SI), Z1, Z1

masks:
	VPORD (AX), Z1, Z1

	// Everything in units: R9 zeros, which fill the first word, DX zeros, FF and head, CX body. R8: number of words.
	SHRQ $2, DX
	SHRQ $2, CX
	INCQ DX
	LEAQ 15(DX)(CX*1), R8
	SHRQ $4, R8
	MOVQ R8, R9
	SHLQ $4, R9
	SUBQ DX, R9
	SUBQ CX, R9
	ADDQ R9, DX

	// The head, turned by zeros and FF, has a part in the first word, Z16, and one in the second, Z17.
	MOVL         $-1, R11
	SHLXL        R9, R11, R12
	KMOVW        R12, K2
	KNOTW        K2, K3
	INCQ         R9
	VPBROADCASTD R9, Z3
	VMOVDQU32    iota<>(SB), Z5
	VPSUBD       Z3, Z5, Z4
	VPERMD.Z     Z1, Z4, K2, Z16
	VPERMD.Z     Z1, Z4, K3, Z17

	// So has the start of the body, turned by DX. A masked load would save the turning, but it would start before the body,
	// and where that is in a page that is not there it is slow (140 ns), if harmless. A short body takes one all the same:
	// it reaches beyond the end.
	MOVL         $16, R12
	CMPQ         CX, R12
	CMOVQLT      CX, R12
	BZHIL        R12, R11, R12
	KMOVW        R12, K1
	VMOVDQU32.Z  (DI), K1, Z1
	VPBROADCASTD DX, Z3
	VPSUBD       Z3, Z5, Z4
	SHLXL        DX, R11, R12
	KMOVW        R12, K4
	VPERMD.Z     Z1, Z4, K4, Z6
	VPORD        Z6, Z16, Z16
	VPXORD       Z8, Z8, Z8
	LEAQ         ·folding+foldTables_power(SB), R13
	CMPQ         R8, $1
	JEQ          one
	MOVQ         DX, R10
	NEGQ         R10
	LEAQ         128(DI)(R10*4), R10 // where the third word starts
	CMPQ         DX, $16
	JA           late
	VPORD        -64(R10), Z17, Z17 // the second is body from its first unit on
	JMP          words

late:
	SHRL     $16, R12
	KMOVW    R12, K5
	VPERMD.Z Z1, Z4, K5, Z6
	VPORD    Z6, Z17, Z17

words:
	CMPQ  R8, $8
	JA    long
	MOVQ  R8, R11
	SHLQ  $6, R11
	NEGQ  R11
	LEAQ  512(R13)(R11*1), R13 // the last R8 words of powers
	TIMES(Z16, (R13))
	TIMES(Z17, 64(R13))
	SUBQ  $2, R8
	JEQ   reduce

more:
	VMOVDQU64 (R10), Z4
	TIMES(Z4, 128(R13))
	ADDQ      $64, R10
	ADDQ      $64, R13
	DECQ      R8
	JNE       more

reduce:
	// The four lanes of Z8 add up to the 95 bits.
	VEXTRACTI64X4 $1, Z8, Y9
	VPXOR         Y9, Y8, Y8
	VEXTRACTI128  $1, Y8, X9
	VPXOR         X9, X8, X8
	VMOVDQU       ·folding+foldTables_mu(SB), X10 // mu, P
	VPCLMULQDQ    $0x00, X10, X8, X9
	VPCLMULQDQ    $0x10, X10, X9, X9
	VPXOR         X9, X8, X8
	VPEXTRD       $2, X8, AX
	NOTL          AX
	VZEROUPPER
	MOVL          AX, ret+56(FP)
	RET

one:
	TIMES(Z16, 448(R13))
	JMP reduce

long:
	VPBROADCASTQ ·folding+(foldTables_matrix+0)(SB), Z28
	VPBROADCASTQ ·folding+(foldTables_matrix+8)(SB), Z29
	VPBROADCASTQ ·folding+(foldTables_matrix+16)(SB), Z30
	VPBROADCASTQ ·folding+(foldTables_matrix+24)(SB), Z31
	VPXORD       Z0, Z0, Z0
	VPXORD       Z1, Z1, Z1
	VPXORD       Z2, Z2, Z2
	VPXORD       Z4, Z4, Z4
	VPXORD       Z5, Z5, Z5
	VPXORD       Z6, Z6, Z6
	VPXORD       Z7, Z7, Z7

	// The first group, Z0 to Z3, gets one to four words, so that the rest are whole groups: R8 of them without the last.
	DECQ R8
	MOVQ R8, R11
	SHRQ $2, R8
	DECQ R8
	ANDQ $3, R11
	JEQ  first1
	CMPQ R11, $2
	JB   first2
	JEQ  first3

	VMOVDQA64 Z16, Z0
	VMOVDQA64 Z17, Z1
	VMOVDQU64 (R10), Z2
	VMOVDQU64 64(R10), Z3
	ADDQ      $128, R10
	JMP       groups

first3:
	VMOVDQA64 Z16, Z1
	VMOVDQA64 Z17, Z2
	VMOVDQU64 (R10), Z3
	ADDQ      $64, R10
	JMP       groups

first2:
	VMOVDQA64 Z16, Z2
	VMOVDQA64 Z17, Z3
	TESTQ     R14, R14
	JEQ       even

	// The third word may begin in the headers: the group is taken from the body.
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, (R10), 64(R10), 128(R10), 192(R10))
	ADDQ      $256, R10
	DECQ      R8
	JNE       copyOdd
	JMP       swap

first1:
	// The second word is the first of the next group.
	VMOVDQA64 Z16, Z3
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z17, (R10), 64(R10), 128(R10))
	ADDQ      $192, R10
	DECQ      R8
	JEQ       swap
	TESTQ     R14, R14
	JNE       copyOdd
	JMP       odd

groups:
	TESTQ R14, R14
	JNE   copyEven

even:
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, (R10), 64(R10), 128(R10), 192(R10))
	ADDQ $256, R10
	DECQ R8
	JEQ  swap

odd:
	FOLD(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, (R10), 64(R10), 128(R10), 192(R10))
	ADDQ $256, R10
	DECQ R8
	JNE  even

last:
	// Z0 to Z3 are the group before the last, Z4 to Z7 what was given to the last.
	TESTQ  R14, R14
	JNE    copyLast
	VPXORD (R10), Z4, Z4
	VPXORD 64(R10), Z5, Z5
	VPXORD 128(R10), Z6, Z6
	VPXORD 192(R10), Z7, Z7

powers:
	TIMES(Z0, (R13))
	TIMES(Z1, 64(R13))
	TIMES(Z2, 128(R13))
	TIMES(Z3, 192(R13))
	TIMES(Z4, 256(R13))
	TIMES(Z5, 320(R13))
	TIMES(Z6, 384(R13))
	TIMES(Z7, 448(R13))
	JMP    reduce

swap:
	// After an odd number of groups the two halves are in each other's place.
	VMOVDQA64 Z0, Z9
	VMOVDQA64 Z1, Z10
	VMOVDQA64 Z2, Z11
	VMOVDQA64 Z3, Z12
	VMOVDQA64 Z4, Z0
	VMOVDQA64 Z5, Z1
	VMOVDQA64 Z6, Z2
	VMOVDQA64 Z7, Z3
	VMOVDQA64 Z9, Z4
	VMOVDQA64 Z10, Z5
	VMOVDQA64 Z11, Z6
	VMOVDQA64 Z12, Z7
	JMP       last

copyEven:
	COPY
	FOLD(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z20, Z21, Z22, Z23)
	ADDQ $256, R10
	DECQ R8
	JEQ  swap

copyOdd:
	COPY
	FOLD(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, Z21, Z22, Z23)
	ADDQ $256, R10
	DECQ R8
	JNE  copyEven

copyLast:
	COPY
	VPXORD Z20, Z4, Z4
	VPXORD Z21, Z5, Z5
	VPXORD Z22, Z6, Z6
	VPXORD Z23, Z7, Z7
	JMP    powers
