// All embedding tables of a model in one array on huge pages.
#pragma once

#include <cstdint>
#include <vector>

#include "bundle.h"

namespace bench {

constexpr size_t kHuge = size_t(2) << 20;

// Maps private memory, aligned to huge pages and on them where the kernel has some. It lives until the process ends.
void* map_huge(size_t bytes);

struct Tables {
  const float* rows = nullptr;       // [bundle.total_rows, bundle.dim]
  std::vector<uint32_t> first;       // row at which each table starts
  size_t bytes = 0;
};

// Reads the tables with all threads of the process. Throws Error.
Tables load_tables(const Bundle& bundle, int threads);

// Bytes of [start, start + bytes) that are on huge pages now.
size_t huge_bytes(const void* start, size_t bytes);

}  // namespace bench
