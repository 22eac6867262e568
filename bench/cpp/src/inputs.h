// Decodes requests of rankd.v1: checks them, and turns ids into rows of the tables.
#pragma once

#include <string>
#include <vector>

#include "gather.h"
#include "rankd/v1/prediction.pb.h"
#include "tables.h"

namespace bench {

// Neighbouring tables whose ids came with the same number of rows: one for each example, or one that serves all of them.
struct Run {
  int first = 0;   // table
  int tables = 0;
  int ids = 0;     // a row
  int count = 0;   // rows: those of the request, or 1
  size_t at = 0;   // of its ids in Inputs::rows, [count, ids]
  const BagShape* shape = nullptr;
};

// A tensor of ids: a table's, or that of all tables.
struct IdTensor {
  const std::string* name;
  const rankd::v1::HostBufferProto* tensor;
  int table;       // the first one
  int tables;
  int column;      // of the packed ids
  int width;
  size_t run;      // index
  int offset;      // in a row of the run
};

// The inputs of one request. Reused from call to call; `dense` points into the request.
struct Inputs {
  int count = 0;
  std::vector<Run> runs;
  std::vector<uint32_t> rows;  // of the array of all tables: those of all runs and kAhead more
  const char* dense = nullptr; // float32 [dense_rows, bundle.dense_width], of any alignment
  int dense_rows = 0;          // count, or 1 that serves all examples

  // Scratch of the decoder.
  std::vector<IdTensor> tensors;
  std::vector<BagShape> shapes;
};

class Decoder {
 public:
  Decoder(const Bundle& bundle, const Tables& tables);

  // Reads a request with packed ids (int32 or int64 "ids" [B, sum of hotness]) or a tensor a table ([B, hotness]). Any input
  // may have one row beside others of B rows. Returns what is wrong with it, or an empty text.
  std::string decode(const rankd::v1::PredictRequest& request, Inputs& inputs) const;

 private:
  template <typename Id>
  std::string resolve(const IdTensor& ids, const Run& run, uint32_t* to) const;
  std::string read(const IdTensor& ids, Inputs& inputs) const;
  std::string find(const google::protobuf::Map<std::string, rankd::v1::HostBufferProto>& all, Inputs& inputs) const;
  void lay_out(Inputs& inputs) const;

  const Bundle& bundle_;
  BagShape whole_;               // of all tables
  std::vector<uint32_t> first_;  // per column of the packed ids: row at which its table starts
  std::vector<uint64_t> limit_;  // rows of its table
  std::vector<int> table_;       // its table
};

}  // namespace bench
