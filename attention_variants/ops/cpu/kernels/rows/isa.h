// How the sources of this folder are compiled: once for each instruction set, LRA_ISA (baseline,
// avx2, avx512; gemm_bf16_pairs.cpp and gemm_bf16_tiles.cpp for avx512_bf16 alone), whose name is
// the innermost namespace of all that they define. What calls them sees the same declarations
// without it: functions that pass calls on to the chosen set (kernels.cpp). That file, gemm.cpp,
// amx.cpp, arena.cpp and fourier_plan.cpp are compiled once, without LRA_ISA.
//
// An inline function that two sets share would be linked once, maybe with instructions that the
// processor lacks: those of lra::ops::cpu have to be LRA_INLINE (tests/checks/kernel_symbols).
#pragma once

#define LRA_INLINE [[gnu::always_inline]] inline

#ifdef LRA_ISA
#define LRA_KERNELS cpu::LRA_ISA
#else
#define LRA_KERNELS cpu
#endif
