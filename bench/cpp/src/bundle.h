// What this server needs to know of a model bundle.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

// Says what was being done, what was found and what is wanted.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Table {
  std::string name;
  int64_t rows = 0;
  int hotness = 0;
  std::string file;
  std::string tensor;
};

// A packed row is row_floats float32: pooled vectors one after the other from the start, dense features from dense_column.
struct Bundle {
  std::string directory;
  std::string name;
  std::string version;
  std::string output;
  std::string dense;
  std::vector<Table> tables;
  int dim = 0;
  int dense_width = 0;
  int dense_column = 0;
  int row_floats = 0;
  int max_batch = 0;
  int ids = 0;             // a row
  int64_t total_rows = 0;  // of all tables
};

// Reads manifest.json. Throws Error if it describes anything but summed float32 bags of fixed hotness and one score a row.
Bundle open_bundle(const std::string& directory);

// Where a tensor lies in a safetensors file, in bytes from the file's start.
struct Span {
  int64_t offset = 0;
  int64_t size = 0;
};

// Finds a float32 tensor of the shape [rows, dim].
Span find_tensor(const std::string& path, const std::string& tensor, int64_t rows, int dim);

}  // namespace bench
