"""Models the kernels' inner loops with llvm-mca (scripts/mca.sh)."""
