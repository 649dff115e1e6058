tile_new:
	pushq	%rbp
	movq	%rsp, %rbp
	andq	$-32, %rsp
	subq	$328, %rsp
	testq	%rdi, %rdi
	jle	.L62
	vxorps	%xmm6, %xmm6, %xmm6
	xorl	%eax, %eax
	vmovaps	%ymm6, -88(%rsp)
	vmovaps	%ymm6, %ymm7
	vmovaps	%ymm6, %ymm10
	vmovaps	%ymm6, %ymm11
	vmovaps	%ymm6, -56(%rsp)
	vmovaps	%ymm6, %ymm12
	vmovaps	%ymm6, %ymm8
	vmovaps	%ymm6, %ymm9
	vmovaps	%ymm6, -24(%rsp)
	vmovaps	%ymm6, %ymm13
	vmovaps	%ymm6, %ymm14
	vmovaps	%ymm6, %ymm15
	vmovaps	%ymm6, 8(%rsp)
	vmovaps	%ymm6, 40(%rsp)
	vmovaps	%ymm6, 72(%rsp)
	vmovaps	%ymm6, 104(%rsp)
	vmovaps	%ymm6, 136(%rsp)
	vmovaps	%ymm6, 168(%rsp)
	vmovaps	%ymm6, 200(%rsp)
	vmovaps	%ymm6, 232(%rsp)
	vmovaps	%ymm6, 264(%rsp)
	vmovaps	%ymm6, 296(%rsp)
	vmovaps	%ymm6, -120(%rsp)
.L61:
	vmovups	(%rdx), %ymm3
	vmovups	64(%rdx), %ymm1
	addq	$1, %rax
	addq	$24, %rsi
	vmovups	32(%rdx), %ymm2
	vbroadcastss	-24(%rsi), %ymm4
	subq	$-128, %rdx
	vmovaps	264(%rsp), %ymm5
	vmovups	-32(%rdx), %ymm0
	vfmadd231ps	%ymm3, %ymm4, %ymm15
	vfmadd231ps	%ymm2, %ymm4, %ymm14
	vfmadd231ps	%ymm1, %ymm4, %ymm13
	vfmadd213ps	296(%rsp), %ymm0, %ymm4
	vmovaps	%ymm4, 296(%rsp)
	vbroadcastss	-20(%rsi), %ymm4
	vfmadd231ps	%ymm3, %ymm4, %ymm5
	vmovaps	%ymm5, 264(%rsp)
	vmovaps	232(%rsp), %ymm5
	vfmadd231ps	%ymm2, %ymm4, %ymm5
	vmovaps	%ymm5, 232(%rsp)
	vmovaps	200(%rsp), %ymm5
	vfmadd231ps	%ymm1, %ymm4, %ymm5
	vfmadd213ps	168(%rsp), %ymm0, %ymm4
	vmovaps	%ymm5, 200(%rsp)
	vmovaps	136(%rsp), %ymm5
	vmovaps	%ymm4, 168(%rsp)
	vbroadcastss	-16(%rsi), %ymm4
	vfmadd231ps	%ymm3, %ymm4, %ymm5
	vfmadd231ps	%ymm2, %ymm4, %ymm9
	vfmadd231ps	%ymm1, %ymm4, %ymm8
	vfmadd213ps	104(%rsp), %ymm0, %ymm4
	vmovaps	%ymm5, 136(%rsp)
	vmovaps	-120(%rsp), %ymm5
	vmovaps	%ymm4, 104(%rsp)
	vbroadcastss	-12(%rsi), %ymm4
	vfmadd231ps	%ymm1, %ymm4, %ymm5
	vfmadd231ps	%ymm3, %ymm4, %ymm7
	vfmadd231ps	%ymm2, %ymm4, %ymm6
	vfmadd213ps	72(%rsp), %ymm0, %ymm4
	vmovaps	%ymm5, -120(%rsp)
	vmovaps	%ymm4, 72(%rsp)
	vbroadcastss	-8(%rsi), %ymm4
	vfmadd231ps	%ymm3, %ymm4, %ymm12
	vfmadd231ps	%ymm2, %ymm4, %ymm11
	vfmadd231ps	%ymm1, %ymm4, %ymm10
	vfmadd213ps	40(%rsp), %ymm0, %ymm4
	vmovaps	%ymm4, 40(%rsp)
	vbroadcastss	-4(%rsi), %ymm4
	vfmadd213ps	8(%rsp), %ymm4, %ymm3
	vmovaps	%ymm3, 8(%rsp)
	vfmadd213ps	-24(%rsp), %ymm4, %ymm2
	vfmadd213ps	-56(%rsp), %ymm4, %ymm1
	vfmadd213ps	-88(%rsp), %ymm0, %ymm4
	vmovaps	%ymm2, -24(%rsp)
	vmovaps	%ymm1, -56(%rsp)
	vmovaps	%ymm4, -88(%rsp)
	cmpq	%rax, %rdi
	jne	.L61
.L60:
	vmovaps	296(%rsp), %ymm0
	leaq	0(,%r8,4), %rax
	vmovups	%ymm15, (%rcx)
	leaq	0(,%r8,8), %rsi
	leaq	(%rcx,%rax), %rdx
	vmovups	%ymm14, 32(%rcx)
	vmovups	%ymm0, 96(%rcx)
	vmovaps	264(%rsp), %ymm0
	vmovups	%ymm13, 64(%rcx)
	vmovups	%ymm0, (%rdx)
	addq	%rax, %rdx
	vmovaps	232(%rsp), %ymm0
	vmovups	%ymm0, 32(%rcx,%rax)
	vmovaps	200(%rsp), %ymm0
	vmovups	%ymm0, 64(%rcx,%rax)
	vmovaps	168(%rsp), %ymm0
	vmovups	%ymm0, 96(%rcx,%rax)
	vmovaps	136(%rsp), %ymm0
	vmovups	%ymm0, (%rdx)
	vmovaps	104(%rsp), %ymm0
	addq	%rax, %rdx
	vmovups	%ymm9, 32(%rcx,%rsi)
	vmovups	%ymm8, 64(%rcx,%rsi)
	vmovups	%ymm0, 96(%rcx,%rsi)
	leaq	(%r8,%r8,2), %rsi
	salq	$2, %rsi
	vmovups	%ymm7, (%rdx)
	vmovaps	40(%rsp), %ymm7
	addq	%rax, %rdx
	vmovups	%ymm6, 32(%rcx,%rsi)
	vmovaps	72(%rsp), %ymm6
	addq	%r8, %rax
	vmovups	%ymm5, 64(%rcx,%rsi)
	salq	$2, %rax
	vmovups	%ymm6, 96(%rcx,%rsi)
	movq	%r8, %rsi
	vmovaps	8(%rsp), %ymm6
	salq	$4, %rsi
	vmovups	%ymm12, (%rdx)
	vmovups	%ymm7, 96(%rcx,%rsi)
	vmovaps	-24(%rsp), %ymm7
	vmovups	%ymm11, 32(%rcx,%rsi)
	vmovups	%ymm10, 64(%rcx,%rsi)
	vmovups	%ymm6, (%rdx,%r8,4)
	vmovups	%ymm7, 32(%rcx,%rax)
	vmovaps	-56(%rsp), %ymm6
	vmovaps	-88(%rsp), %ymm7
	vmovups	%ymm6, 64(%rcx,%rax)
	vmovups	%ymm7, 96(%rcx,%rax)
	vzeroupper
	leave
	ret
.L62:
	vxorps	%xmm6, %xmm6, %xmm6
	vmovaps	%ymm6, -88(%rsp)
	vmovaps	%ymm6, %ymm7
	vmovaps	%ymm6, %ymm10
	vmovaps	%ymm6, %ymm11
	vmovaps	%ymm6, -56(%rsp)
	vmovaps	%ymm6, %ymm12
	vmovaps	%ymm6, %ymm5
	vmovaps	%ymm6, %ymm8
	vmovaps	%ymm6, -24(%rsp)
	vmovaps	%ymm6, %ymm9
	vmovaps	%ymm6, %ymm13
	vmovaps	%ymm6, %ymm14
	vmovaps	%ymm6, 8(%rsp)
	vmovaps	%ymm6, %ymm15
	vmovaps	%ymm6, 40(%rsp)
	vmovaps	%ymm6, 72(%rsp)
	vmovaps	%ymm6, 104(%rsp)
	vmovaps	%ymm6, 136(%rsp)
	vmovaps	%ymm6, 168(%rsp)
	vmovaps	%ymm6, 200(%rsp)
	vmovaps	%ymm6, 232(%rsp)
	vmovaps	%ymm6, 264(%rsp)
	vmovaps	%ymm6, 296(%rsp)
	jmp	.L60
	.size	tile_new, .-tile_new
