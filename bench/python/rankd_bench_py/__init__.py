"""Python servers that rankd is compared with: one process or several, with and without batching, on the same wire."""

import os

# The pooling uses matrix products of a few thousand elements, which threads of BLAS only slow down. NumPy's BLAS reads
# these when it is loaded, so this stands before the first import of NumPy. A value from outside wins.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
