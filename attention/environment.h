/* The floating-point control of the thread that computes. Callers bring what they like: subnormals flushed
 * (-ffast-math programs, audio code), another rounding, traps; and threads keep what they were created with,
 * so parts of one result could be computed under different ones. All arithmetic stands between enter and
 * leave, in each thread. Costs some ten cycles.
 *
 * Status flags are left as they come: whoever watches them sees what the kernels raised. */
#ifndef ATTN_ENVIRONMENT_H
#define ATTN_ENVIRONMENT_H

#include <fenv.h>
#include <stdint.h>

#if defined(__SSE__)
/* MXCSR: all exceptions masked, to nearest, FTZ and DAZ off; the flags are its lowest bits. */
#    define ATTN_CONTROL_DEFAULT 0x1f80u
#    define ATTN_CONTROL_FLAGS 0x3fu
#endif

/* Sets the default control: to nearest, subnormals kept, no traps. Returns the caller's. */
static inline uint64_t attn_environment_enter(void) {
    uint64_t caller;
#if defined(__SSE__)
    caller = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(ATTN_CONTROL_DEFAULT | ((uint32_t)caller & ATTN_CONTROL_FLAGS));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#else /* what C has */
    caller = (uint64_t)fegetround();
    fesetround(FE_TONEAREST);
#endif
    __asm__ volatile("" : : : "memory"); /* no operand is fetched before */
    return caller;
}

static inline void attn_environment_leave(uint64_t caller) {
    __asm__ volatile("" : : : "memory"); /* all results are stored by now */
#if defined(__SSE__)
    __builtin_ia32_ldmxcsr(((uint32_t)caller & ~ATTN_CONTROL_FLAGS) |
                           (__builtin_ia32_stmxcsr() & ATTN_CONTROL_FLAGS));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(caller));
#else
    fesetround((int)caller);
#endif
}

#endif
