#include "tables.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

namespace bench {

namespace {

void read_span(const std::string& path, Span span, char* to) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error("open \"" + path + "\": " + std::strerror(errno));
  for (int64_t at = 0; at < span.size;) {
    ssize_t got = pread(fd, to + at, std::min<int64_t>(span.size - at, 64 << 20), span.offset + at);
    if (got <= 0) {
      std::string cause = got < 0 ? std::strerror(errno) : "it ends early";
      close(fd);
      throw Error("read \"" + path + "\": " + cause);
    }
    at += got;
  }
  close(fd);
}

}  // namespace

void* map_huge(size_t bytes) {
  bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  void* reserved = mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw Error("map " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  auto start = (reinterpret_cast<uintptr_t>(reserved) + kHuge - 1) / kHuge * kHuge;
  void* aligned = reinterpret_cast<void*>(start);
  madvise(aligned, bytes, MADV_HUGEPAGE);  // without huge pages it works too
  return aligned;
}

Tables load_tables(const Bundle& bundle, int threads) {
  Tables tables;
  tables.bytes = size_t(bundle.total_rows) * bundle.dim * 4;
  if (bundle.total_rows > int64_t(UINT32_MAX)) throw Error("load tables: got more than 2^32 rows");
  float* rows = static_cast<float*>(map_huge(tables.bytes));
  tables.rows = rows;
  uint32_t first = 0;
  for (const Table& t : bundle.tables) {
    tables.first.push_back(first);
    first += uint32_t(t.rows);
  }
  std::atomic<size_t> next{0};
  std::mutex mu;
  std::string failed;
  auto work = [&] {
    for (size_t i; (i = next++) < bundle.tables.size();) {
      try {
        const Table& t = bundle.tables[i];
        std::string path = bundle.directory + "/" + t.file;
        read_span(path, find_tensor(path, t.tensor, t.rows, bundle.dim),
                  reinterpret_cast<char*>(rows + size_t(tables.first[i]) * bundle.dim));
      } catch (const Error& error) {
        std::lock_guard<std::mutex> lock(mu);
        failed = error.what();
      }
    }
  };
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; i++) pool.emplace_back(work);
  for (std::thread& t : pool) t.join();
  if (!failed.empty()) throw Error("load tables: " + failed);
  return tables;
}

size_t huge_bytes(const void* start, size_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  auto from = reinterpret_cast<uintptr_t>(start);
  size_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long low, high, kilobytes;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) {
      inside = low < from + bytes && high > from;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kilobytes) == 1) {
      total += kilobytes * 1024;
    }
  }
  return total;
}

}  // namespace bench
