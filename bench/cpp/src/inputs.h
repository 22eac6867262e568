// Decodes requests of rankd.v1: checks them, and turns ids into rows of the tables.
#pragma once

#include <string>
#include <vector>

#include "gather.h"
#include "rankd/v1/prediction.pb.h"
#include "tables.h"

namespace bench {

// The inputs of one request. Reused from call to call; `dense` points into the request.
struct Inputs {
  int count = 0;
  std::vector<uint32_t> rows;  // of the array of all tables: [count, bundle.ids] and kAhead more
  const char* dense = nullptr; // float32 [count, bundle.dense_width], of any alignment
};

class Decoder {
 public:
  Decoder(const Bundle& bundle, const Tables& tables);

  // Reads a request with packed ids (int32 or int64 "ids" [B, sum of hotness]) or a tensor a table ([B, hotness]).
  // Returns what is wrong with it, or an empty text.
  std::string decode(const rankd::v1::PredictRequest& request, Inputs& inputs) const;

 private:
  template <typename Id>
  std::string resolve(const char* data, int count, int column, int width, Inputs& inputs) const;
  std::string ids(const std::string& name, const rankd::v1::HostBufferProto& tensor, int column, int width,
                  Inputs& inputs) const;

  const Bundle& bundle_;
  std::vector<uint32_t> first_;  // per column of the packed ids: row at which its table starts
  std::vector<uint64_t> limit_;  // rows of its table
  std::vector<int> table_;       // its table
};

}  // namespace bench
