#include "inputs.h"

#include <cstring>

namespace bench {

using rankd::v1::HostBufferProto;
using rankd::v1::PredictRequest;

Decoder::Decoder(const Bundle& bundle, const Tables& tables) : bundle_(bundle) {
  for (size_t t = 0; t < bundle.tables.size(); t++) {
    for (int i = 0; i < bundle.tables[t].hotness; i++) {
      first_.push_back(tables.first[t]);
      limit_.push_back(uint64_t(bundle.tables[t].rows));
      table_.push_back(int(t));
    }
  }
}

// Ids of columns [column, column + width) of the packed row. As unsigned numbers, negative ids are too large as well.
template <typename Id>
std::string Decoder::resolve(const char* data, int count, int column, int width, Inputs& inputs) const {
  const uint32_t* first = first_.data() + column;
  const uint64_t* limit = limit_.data() + column;
  for (int e = 0; e < count; e++, data += width * sizeof(Id)) {
    uint32_t* to = inputs.rows.data() + size_t(e) * bundle_.ids + column;
    bool good = true;
    for (int i = 0; i < width; i++) {
      Id id;
      std::memcpy(&id, data + i * sizeof(Id), sizeof(Id));
      good &= uint64_t(id) < limit[i];
      to[i] = first[i] + uint32_t(id);
    }
    for (int i = 0; !good && i < width; i++) {
      Id id;
      std::memcpy(&id, data + i * sizeof(Id), sizeof(Id));
      if (uint64_t(id) >= limit[i]) {
        return "input \"" + bundle_.tables[table_[column + i]].name + "\" row " + std::to_string(e) + ": got id " +
               std::to_string(id) + ", want 0 to " + std::to_string(limit[i] - 1);
      }
    }
  }
  return "";
}

std::string Decoder::ids(const std::string& name, const HostBufferProto& tensor, int column, int width,
                         Inputs& inputs) const {
  const bool wide = tensor.dtype() == rankd::v1::DTYPE_INT64;
  if (!wide && tensor.dtype() != rankd::v1::DTYPE_INT32) return "input \"" + name + "\": want int32 or int64";
  const size_t bytes = size_t(inputs.count) * width * (wide ? 8 : 4);
  if (tensor.shape_size() != 2 || tensor.shape(0) != inputs.count || tensor.shape(1) != width ||
      tensor.data().size() != bytes) {
    return "input \"" + name + "\": got " + std::to_string(tensor.data().size()) + " bytes, want [" +
           std::to_string(inputs.count) + ", " + std::to_string(width) + "], " + std::to_string(bytes) + " bytes";
  }
  return wide ? resolve<int64_t>(tensor.data().data(), inputs.count, column, width, inputs)
              : resolve<int32_t>(tensor.data().data(), inputs.count, column, width, inputs);
}

std::string Decoder::decode(const PredictRequest& request, Inputs& inputs) const {
  if ((!request.model_name().empty() && request.model_name() != bundle_.name) ||
      (!request.model_version().empty() && request.model_version() != bundle_.version)) {
    return "model: want \"" + bundle_.name + "\" version \"" + bundle_.version + "\"";
  }
  const auto& tensors = request.inputs();
  auto dense = tensors.find(bundle_.dense);
  if (dense == tensors.end()) return "input \"" + bundle_.dense + "\": missing";
  const HostBufferProto& d = dense->second;
  if (d.shape_size() != 2 || d.shape(1) != bundle_.dense_width || d.shape(0) < 1 || d.shape(0) > bundle_.max_batch ||
      d.dtype() != rankd::v1::DTYPE_FLOAT32 || d.data().size() != size_t(4 * d.shape(0) * d.shape(1))) {
    return "input \"" + bundle_.dense + "\": want float32 [B, " + std::to_string(bundle_.dense_width) +
           "] with 1 to " + std::to_string(bundle_.max_batch) + " rows";
  }
  inputs.count = int(d.shape(0));
  inputs.dense = d.data().data();
  inputs.rows.assign(size_t(inputs.count) * bundle_.ids + kAhead, 0);
  auto packed = tensors.find("ids");
  if (packed != tensors.end() && tensors.size() == 2) return ids("ids", packed->second, 0, bundle_.ids, inputs);
  if (tensors.size() != bundle_.tables.size() + 1) return "inputs: want \"ids\", or one input a table";
  int column = 0;
  for (const Table& t : bundle_.tables) {
    auto found = tensors.find(t.name);
    if (found == tensors.end()) return "input \"" + t.name + "\": missing";
    std::string wrong = ids(t.name, found->second, column, t.hotness, inputs);
    if (!wrong.empty()) return wrong;
    column += t.hotness;
  }
  return "";
}

}  // namespace bench
