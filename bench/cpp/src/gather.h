// Sums of embedding rows: one sweep over all bags of a request, with the rows of later bags already on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

// Rows that are fetched ahead of the one being added, across the borders of bags.
constexpr int kAhead = 16;

// Bags are those of one example, the same for all: bag b has hot[b] ids.
struct BagShape {
  std::vector<int> hot;
  int ids = 0;  // sum of hot
  int dim = 0;  // floats a row
};

// A kernel pools `count` examples. rows: for each example shape.ids row numbers of `table`, then kAhead more that may be
// read (any valid ones). out: for each example shape.hot.size() * dim floats, `stride` floats from one to the next.
// Rows are added in the order of the ids.
using Kernel = void (*)(const BagShape& shape, const float* table, const uint32_t* rows, int count, float* out,
                        size_t stride);

void gather_portable(const BagShape&, const float*, const uint32_t*, int, float*, size_t);
void gather_avx2(const BagShape&, const float*, const uint32_t*, int, float*, size_t);
void gather_avx512(const BagShape&, const float*, const uint32_t*, int, float*, size_t);

struct NamedKernel {
  const char* name;
  Kernel run;
};

// All kernels that this machine can run for rows of `dim` floats, the fastest first.
std::vector<NamedKernel> kernels(int dim);

}  // namespace bench
