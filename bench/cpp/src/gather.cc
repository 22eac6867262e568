#include "gather.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {

void gather_portable(const BagShape& shape, const float* table, const uint32_t* rows, int count, float* out,
                     size_t stride) {
  const size_t dim = shape.dim;
  for (int e = 0; e < count; e++, out += stride) {
    float* to = out;
    for (int hot : shape.hot) {
      for (size_t d = 0; d < dim; d++) to[d] = 0;
      for (int i = 0; i < hot; i++) {
        const float* from = table + *rows++ * dim;
        for (size_t d = 0; d < dim; d++) to[d] += from[d];
      }
      to += dim;
    }
  }
}

#if defined(__x86_64__)

namespace {

// Brings the `Lines` cache lines at p into the first-level cache.
template <int Lines>
inline void fetch(const float* p) {
  for (int line = 0; line < Lines; line++) _mm_prefetch(reinterpret_cast<const char*>(p) + 64 * line, _MM_HINT_T0);
}

// A row of Blocks * 16 floats is added into registers, so that a pooled vector is written once. The two kernels differ in
// the width of the registers only; a common template would have to carry the target attribute through lambdas.
template <int Blocks>
__attribute__((target("avx512f"))) void sweep512(const BagShape& shape, const float* table, const uint32_t* rows,
                                                 int count, float* out, size_t stride) {
  constexpr size_t dim = Blocks * 16;
  for (int e = 0; e < count; e++, out += stride) {
    float* to = out;
    for (int hot : shape.hot) {
      __m512 sum[Blocks];
      for (int b = 0; b < Blocks; b++) sum[b] = _mm512_setzero_ps();
      for (int i = 0; i < hot; i++, rows++) {
        fetch<Blocks>(table + rows[kAhead] * dim);
        const float* from = table + *rows * dim;
        for (int b = 0; b < Blocks; b++) sum[b] = _mm512_add_ps(sum[b], _mm512_loadu_ps(from + 16 * b));
      }
      for (int b = 0; b < Blocks; b++) _mm512_storeu_ps(to + 16 * b, sum[b]);
      to += dim;
    }
  }
}

template <int Blocks>
__attribute__((target("avx2"))) void sweep256(const BagShape& shape, const float* table, const uint32_t* rows, int count,
                                              float* out, size_t stride) {
  constexpr size_t dim = Blocks * 8;
  for (int e = 0; e < count; e++, out += stride) {
    float* to = out;
    for (int hot : shape.hot) {
      __m256 sum[Blocks];
      for (int b = 0; b < Blocks; b++) sum[b] = _mm256_setzero_ps();
      for (int i = 0; i < hot; i++, rows++) {
        fetch<(Blocks + 1) / 2>(table + rows[kAhead] * dim);
        const float* from = table + *rows * dim;
        for (int b = 0; b < Blocks; b++) sum[b] = _mm256_add_ps(sum[b], _mm256_loadu_ps(from + 8 * b));
      }
      for (int b = 0; b < Blocks; b++) _mm256_storeu_ps(to + 8 * b, sum[b]);
      to += dim;
    }
  }
}

}  // namespace

// Other widths than the usual ones take the portable loop: this server is for comparison on known models.
void gather_avx512(const BagShape& shape, const float* table, const uint32_t* rows, int count, float* out,
                   size_t stride) {
  switch (shape.dim) {
    case 16: return sweep512<1>(shape, table, rows, count, out, stride);
    case 32: return sweep512<2>(shape, table, rows, count, out, stride);
    case 64: return sweep512<4>(shape, table, rows, count, out, stride);
    case 128: return sweep512<8>(shape, table, rows, count, out, stride);
    case 256: return sweep512<16>(shape, table, rows, count, out, stride);
  }
  gather_portable(shape, table, rows, count, out, stride);
}

void gather_avx2(const BagShape& shape, const float* table, const uint32_t* rows, int count, float* out, size_t stride) {
  switch (shape.dim) {
    case 16: return sweep256<2>(shape, table, rows, count, out, stride);
    case 32: return sweep256<4>(shape, table, rows, count, out, stride);
    case 64: return sweep256<8>(shape, table, rows, count, out, stride);
    case 128: return sweep256<16>(shape, table, rows, count, out, stride);
  }
  gather_portable(shape, table, rows, count, out, stride);
}

std::vector<NamedKernel> kernels(int dim) {
  std::vector<NamedKernel> list;
  bool usual = dim == 16 || dim == 32 || dim == 64 || dim == 128;
  if ((usual || dim == 256) && __builtin_cpu_supports("avx512f")) list.push_back({"avx512", gather_avx512});
  if (usual && __builtin_cpu_supports("avx2")) list.push_back({"avx2", gather_avx2});
  list.push_back({"portable", gather_portable});
  return list;
}

#else

std::vector<NamedKernel> kernels(int) { return {{"portable", gather_portable}}; }

#endif

}  // namespace bench
