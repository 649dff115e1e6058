tile_new:
	testq	%rdi, %rdi
	jle	.L62
	vxorps	%xmm3, %xmm3, %xmm3
	xorl	%eax, %eax
	vmovaps	%ymm3, %ymm4
	vmovaps	%ymm3, %ymm5
	vmovaps	%ymm3, %ymm6
	vmovaps	%ymm3, %ymm7
	vmovaps	%ymm3, %ymm8
	vmovaps	%ymm3, %ymm9
	vmovaps	%ymm3, %ymm10
	vmovaps	%ymm3, %ymm11
	vmovaps	%ymm3, %ymm12
	vmovaps	%ymm3, %ymm13
	vmovaps	%ymm3, %ymm14
.L61:
	vmovups	(%rdx), %ymm1
	addq	$1, %rax
	addq	$24, %rsi
	addq	$64, %rdx
	vmovups	-32(%rdx), %ymm0
	vbroadcastss	-24(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm14
	vfmadd231ps	%ymm0, %ymm2, %ymm13
	vbroadcastss	-20(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm12
	vfmadd231ps	%ymm0, %ymm2, %ymm11
	vbroadcastss	-16(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm10
	vfmadd231ps	%ymm0, %ymm2, %ymm9
	vbroadcastss	-12(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm8
	vfmadd231ps	%ymm0, %ymm2, %ymm7
	vbroadcastss	-8(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm6
	vfmadd231ps	%ymm0, %ymm2, %ymm5
	vbroadcastss	-4(%rsi), %ymm2
	vfmadd231ps	%ymm1, %ymm2, %ymm4
	vfmadd231ps	%ymm0, %ymm2, %ymm3
	cmpq	%rax, %rdi
	jne	.L61
.L60:
	leaq	0(,%r8,4), %rdx
	vmovups	%ymm14, (%rcx)
	leaq	(%r8,%r8,2), %rsi
	leaq	(%rcx,%rdx), %rax
	vmovups	%ymm13, 32(%rcx)
	vmovups	%ymm12, (%rax)
	addq	%rdx, %rax
	vmovups	%ymm11, 32(%rcx,%rdx)
	vmovups	%ymm10, (%rax)
	addq	%rdx, %rax
	vmovups	%ymm9, 32(%rcx,%r8,8)
	vmovups	%ymm8, (%rax)
	addq	%rdx, %rax
	addq	%r8, %rdx
	vmovups	%ymm7, 32(%rcx,%rsi,4)
	movq	%r8, %rsi
	salq	$4, %rsi
	vmovups	%ymm6, (%rax)
	vmovups	%ymm5, 32(%rcx,%rsi)
	vmovups	%ymm4, (%rax,%r8,4)
	vmovups	%ymm3, 32(%rcx,%rdx,4)
	vzeroupper
	ret
.L62:
	vxorps	%xmm3, %xmm3, %xmm3
	vmovaps	%ymm3, %ymm4
	vmovaps	%ymm3, %ymm5
	vmovaps	%ymm3, %ymm6
	vmovaps	%ymm3, %ymm7
	vmovaps	%ymm3, %ymm8
	vmovaps	%ymm3, %ymm9
	vmovaps	%ymm3, %ymm10
	vmovaps	%ymm3, %ymm11
	vmovaps	%ymm3, %ymm12
	vmovaps	%ymm3, %ymm13
	vmovaps	%ymm3, %ymm14
	jmp	.L60
	.size	tile_new, .-tile_new
