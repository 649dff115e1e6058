tile_new:                               # @tile_new
# %bb.0:
	subq	$360, %rsp                      # imm = 0x168
	testq	%rdi, %rdi
	jle	.LBB17_1
# %bb.3:
	vxorps	%xmm5, %xmm5, %xmm5
	vxorps	%xmm13, %xmm13, %xmm13
	vxorps	%xmm7, %xmm7, %xmm7
	vxorps	%xmm6, %xmm6, %xmm6
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 64(%rsp)                 # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 128(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 160(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -128(%rsp)               # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -96(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -64(%rsp)                # 32-byte Spill
	vxorps	%xmm8, %xmm8, %xmm8
	vxorps	%xmm14, %xmm14, %xmm14
	vxorps	%xmm15, %xmm15, %xmm15
	vxorps	%xmm11, %xmm11, %xmm11
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 192(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vxorps	%xmm1, %xmm1, %xmm1
	vmovups	%ymm1, 96(%rsp)                 # 32-byte Spill
	vxorps	%xmm1, %xmm1, %xmm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmovups	%ymm2, 32(%rsp)                 # 32-byte Spill
	vxorps	%xmm2, %xmm2, %xmm2
	vxorps	%xmm3, %xmm3, %xmm3
	vmovups	%ymm3, (%rsp)                   # 32-byte Spill
	vxorps	%xmm3, %xmm3, %xmm3
	vxorps	%xmm4, %xmm4, %xmm4
	vmovups	%ymm4, -32(%rsp)                # 32-byte Spill
	vxorps	%xmm4, %xmm4, %xmm4
.LBB17_4:                               # =>This Inner Loop Header: Depth=1
	vmovups	%ymm8, 224(%rsp)                # 32-byte Spill
	vmovups	%ymm11, 256(%rsp)               # 32-byte Spill
	vmovups	(%rdx), %ymm11
	vmovups	32(%rdx), %ymm10
	vmovups	64(%rdx), %ymm9
	vmovups	96(%rdx), %ymm8
	vbroadcastss	(%rsi), %ymm12
	vfmadd231ps	%ymm11, %ymm12, %ymm5   # ymm5 = (ymm12 * ymm11) + ymm5
	vfmadd231ps	%ymm10, %ymm12, %ymm13  # ymm13 = (ymm12 * ymm10) + ymm13
	vmovups	%ymm13, 288(%rsp)               # 32-byte Spill
	vfmadd231ps	%ymm9, %ymm12, %ymm7    # ymm7 = (ymm12 * ymm9) + ymm7
	vfmadd231ps	%ymm12, %ymm8, %ymm6    # ymm6 = (ymm8 * ymm12) + ymm6
	vbroadcastss	4(%rsi), %ymm12
	vfmadd231ps	%ymm11, %ymm12, %ymm4   # ymm4 = (ymm12 * ymm11) + ymm4
	vfmadd231ps	%ymm10, %ymm12, %ymm3   # ymm3 = (ymm12 * ymm10) + ymm3
	vfmadd231ps	%ymm9, %ymm12, %ymm2    # ymm2 = (ymm12 * ymm9) + ymm2
	vmovaps	%ymm7, %ymm13
	vmovaps	%ymm6, %ymm7
	vmovaps	%ymm5, %ymm6
	vmovaps	%ymm4, %ymm5
	vmovaps	%ymm3, %ymm4
	vmovaps	%ymm2, %ymm3
	vmovups	64(%rsp), %ymm2                 # 32-byte Reload
	vfmadd231ps	%ymm12, %ymm8, %ymm2    # ymm2 = (ymm8 * ymm12) + ymm2
	vmovups	%ymm2, 64(%rsp)                 # 32-byte Spill
	vmovaps	%ymm3, %ymm2
	vmovaps	%ymm4, %ymm3
	vmovaps	%ymm5, %ymm4
	vmovaps	%ymm6, %ymm5
	vmovaps	%ymm7, %ymm6
	vmovaps	%ymm13, %ymm7
	vbroadcastss	8(%rsi), %ymm12
	vfmadd231ps	%ymm11, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm11) + ymm1
	vmovups	%ymm1, 320(%rsp)                # 32-byte Spill
	vmovups	128(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm10, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm10) + ymm1
	vmovups	%ymm1, 128(%rsp)                # 32-byte Spill
	vmovups	160(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm9, %ymm12, %ymm1    # ymm1 = (ymm12 * ymm9) + ymm1
	vmovups	%ymm1, 160(%rsp)                # 32-byte Spill
	vfmadd231ps	%ymm12, %ymm8, %ymm0    # ymm0 = (ymm8 * ymm12) + ymm0
	vbroadcastss	12(%rsi), %ymm12
	vmovups	-128(%rsp), %ymm1               # 32-byte Reload
	vfmadd231ps	%ymm11, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm11) + ymm1
	vmovups	%ymm1, -128(%rsp)               # 32-byte Spill
	vmovups	-96(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm10, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm10) + ymm1
	vmovups	%ymm1, -96(%rsp)                # 32-byte Spill
	vmovups	-64(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm9, %ymm12, %ymm1    # ymm1 = (ymm12 * ymm9) + ymm1
	vmovups	%ymm1, -64(%rsp)                # 32-byte Spill
	vmovups	-32(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm12, %ymm8, %ymm1    # ymm1 = (ymm8 * ymm12) + ymm1
	vmovups	%ymm1, -32(%rsp)                # 32-byte Spill
	vbroadcastss	16(%rsi), %ymm12
	vmovups	(%rsp), %ymm1                   # 32-byte Reload
	vfmadd231ps	%ymm11, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm11) + ymm1
	vmovups	%ymm1, (%rsp)                   # 32-byte Spill
	vmovups	32(%rsp), %ymm1                 # 32-byte Reload
	vfmadd231ps	%ymm10, %ymm12, %ymm1   # ymm1 = (ymm12 * ymm10) + ymm1
	vmovups	%ymm1, 32(%rsp)                 # 32-byte Spill
	vmovups	96(%rsp), %ymm1                 # 32-byte Reload
	vfmadd231ps	%ymm9, %ymm12, %ymm1    # ymm1 = (ymm12 * ymm9) + ymm1
	vmovups	%ymm1, 96(%rsp)                 # 32-byte Spill
	vmovaps	%ymm0, %ymm13
	vmovups	192(%rsp), %ymm1                # 32-byte Reload
	vfmadd231ps	%ymm12, %ymm8, %ymm1    # ymm1 = (ymm8 * ymm12) + ymm1
	vmovups	%ymm1, 192(%rsp)                # 32-byte Spill
	vmovups	320(%rsp), %ymm1                # 32-byte Reload
	vbroadcastss	20(%rsi), %ymm12
	vmovups	256(%rsp), %ymm0                # 32-byte Reload
	vfmadd231ps	%ymm11, %ymm12, %ymm0   # ymm0 = (ymm12 * ymm11) + ymm0
	vmovups	%ymm0, 256(%rsp)                # 32-byte Spill
	vmovaps	%ymm13, %ymm0
	vmovups	256(%rsp), %ymm11               # 32-byte Reload
	vfmadd231ps	%ymm10, %ymm12, %ymm15  # ymm15 = (ymm12 * ymm10) + ymm15
	vfmadd231ps	%ymm9, %ymm12, %ymm14   # ymm14 = (ymm12 * ymm9) + ymm14
	vmovups	224(%rsp), %ymm13               # 32-byte Reload
	vfmadd231ps	%ymm8, %ymm12, %ymm13   # ymm13 = (ymm12 * ymm8) + ymm13
	vmovups	%ymm13, 224(%rsp)               # 32-byte Spill
	vmovups	288(%rsp), %ymm13               # 32-byte Reload
	vmovups	224(%rsp), %ymm8                # 32-byte Reload
	subq	$-128, %rdx
	addq	$24, %rsi
	addq	$-1, %rdi
	jne	.LBB17_4
	jmp	.LBB17_2
.LBB17_1:
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -32(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, (%rsp)                   # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 32(%rsp)                 # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 96(%rsp)                 # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 192(%rsp)                # 32-byte Spill
	vxorps	%xmm11, %xmm11, %xmm11
	vxorps	%xmm15, %xmm15, %xmm15
	vxorps	%xmm14, %xmm14, %xmm14
	vxorps	%xmm8, %xmm8, %xmm8
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -64(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -96(%rsp)                # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, -128(%rsp)               # 32-byte Spill
	vxorps	%xmm0, %xmm0, %xmm0
	vxorps	%xmm1, %xmm1, %xmm1
	vmovups	%ymm1, 160(%rsp)                # 32-byte Spill
	vxorps	%xmm1, %xmm1, %xmm1
	vmovups	%ymm1, 128(%rsp)                # 32-byte Spill
	vxorps	%xmm1, %xmm1, %xmm1
	vxorps	%xmm2, %xmm2, %xmm2
	vmovups	%ymm2, 64(%rsp)                 # 32-byte Spill
	vxorps	%xmm2, %xmm2, %xmm2
	vxorps	%xmm3, %xmm3, %xmm3
	vxorps	%xmm4, %xmm4, %xmm4
	vxorps	%xmm6, %xmm6, %xmm6
	vxorps	%xmm7, %xmm7, %xmm7
	vxorps	%xmm13, %xmm13, %xmm13
	vxorps	%xmm5, %xmm5, %xmm5
.LBB17_2:
	vmovups	%ymm5, (%rcx)
	vmovups	%ymm13, 32(%rcx)
	vmovups	%ymm7, 64(%rcx)
	vmovups	%ymm6, 96(%rcx)
	vmovups	%ymm4, (%rcx,%r8,4)
	vmovups	%ymm3, 32(%rcx,%r8,4)
	vmovups	%ymm2, 64(%rcx,%r8,4)
	vmovups	64(%rsp), %ymm2                 # 32-byte Reload
	vmovups	%ymm2, 96(%rcx,%r8,4)
	vmovups	%ymm1, (%rcx,%r8,8)
	vmovups	128(%rsp), %ymm1                # 32-byte Reload
	vmovups	%ymm1, 32(%rcx,%r8,8)
	vmovups	160(%rsp), %ymm1                # 32-byte Reload
	vmovups	%ymm1, 64(%rcx,%r8,8)
	vmovups	%ymm0, 96(%rcx,%r8,8)
	leaq	(%r8,%r8,2), %rax
	vmovups	-128(%rsp), %ymm0               # 32-byte Reload
	vmovups	%ymm0, (%rcx,%rax,4)
	vmovups	-96(%rsp), %ymm0                # 32-byte Reload
	vmovups	%ymm0, 32(%rcx,%rax,4)
	vmovups	-64(%rsp), %ymm0                # 32-byte Reload
	vmovups	%ymm0, 64(%rcx,%rax,4)
	vmovups	-32(%rsp), %ymm0                # 32-byte Reload
	vmovups	%ymm0, 96(%rcx,%rax,4)
	movq	%r8, %rax
	shlq	$4, %rax
	vmovups	(%rsp), %ymm0                   # 32-byte Reload
	vmovups	%ymm0, (%rcx,%rax)
	vmovups	32(%rsp), %ymm0                 # 32-byte Reload
	vmovups	%ymm0, 32(%rcx,%rax)
	vmovups	96(%rsp), %ymm0                 # 32-byte Reload
	vmovups	%ymm0, 64(%rcx,%rax)
	vmovups	192(%rsp), %ymm0                # 32-byte Reload
	vmovups	%ymm0, 96(%rcx,%rax)
	leaq	(%r8,%r8,4), %rax
	vmovups	%ymm11, (%rcx,%rax,4)
	vmovups	%ymm15, 32(%rcx,%rax,4)
	vmovups	%ymm14, 64(%rcx,%rax,4)
	vmovups	%ymm8, 96(%rcx,%rax,4)
	addq	$360, %rsp                      # imm = 0x168
	vzeroupper
	retq
.Lfunc_end17:
	.size	tile_new, .Lfunc_end17-tile_new
