#include "inputs.h"

#include <algorithm>
#include <cstring>

namespace bench {

using rankd::v1::HostBufferProto;
using rankd::v1::PredictRequest;

namespace {

const std::string kPacked = "ids";

int64_t rows_of(const HostBufferProto& tensor) { return tensor.shape_size() > 0 ? tensor.shape(0) : 0; }

}  // namespace

Decoder::Decoder(const Bundle& bundle, const Tables& tables) : bundle_(bundle) {
  whole_.dim = bundle.dim;
  whole_.ids = bundle.ids;
  for (size_t t = 0; t < bundle.tables.size(); t++) {
    whole_.hot.push_back(bundle.tables[t].hotness);
    for (int i = 0; i < bundle.tables[t].hotness; i++) {
      first_.push_back(tables.first[t]);
      limit_.push_back(uint64_t(bundle.tables[t].rows));
      table_.push_back(int(t));
    }
  }
}

// As unsigned numbers, negative ids are too large as well.
template <typename Id>
std::string Decoder::resolve(const IdTensor& ids, const Run& run, uint32_t* to) const {
  const char* data = ids.tensor->data().data();
  const uint32_t* first = first_.data() + ids.column;
  const uint64_t* limit = limit_.data() + ids.column;
  const int width = ids.width;
  for (int e = 0; e < run.count; e++, data += width * sizeof(Id), to += run.ids) {
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
        return "input \"" + bundle_.tables[table_[ids.column + i]].name + "\" row " + std::to_string(e) + ": got id " +
               std::to_string(id) + ", want 0 to " + std::to_string(limit[i] - 1);
      }
    }
  }
  return "";
}

std::string Decoder::read(const IdTensor& ids, Inputs& inputs) const {
  const HostBufferProto& tensor = *ids.tensor;
  const Run& run = inputs.runs[ids.run];
  const bool wide = tensor.dtype() == rankd::v1::DTYPE_INT64;
  if (!wide && tensor.dtype() != rankd::v1::DTYPE_INT32) return "input \"" + *ids.name + "\": want int32 or int64";
  const size_t bytes = size_t(run.count) * ids.width * (wide ? 8 : 4);
  if (tensor.shape_size() != 2 || tensor.shape(0) != run.count || tensor.shape(1) != ids.width ||
      tensor.data().size() != bytes) {
    return "input \"" + *ids.name + "\": got " + std::to_string(tensor.data().size()) + " bytes, want [" +
           std::to_string(run.count) + ", " + std::to_string(ids.width) + "], " + std::to_string(bytes) + " bytes";
  }
  uint32_t* to = inputs.rows.data() + run.at + ids.offset;
  return wide ? resolve<int64_t>(ids, run, to) : resolve<int32_t>(ids, run, to);
}

// Lists the tensors of ids.
std::string Decoder::find(const google::protobuf::Map<std::string, HostBufferProto>& all, Inputs& inputs) const {
  inputs.tensors.clear();
  auto packed = all.find(kPacked);
  if (packed != all.end() && all.size() == 2) {
    inputs.tensors.push_back({&kPacked, &packed->second, 0, int(bundle_.tables.size()), 0, bundle_.ids, 0, 0});
    return "";
  }
  if (all.size() != bundle_.tables.size() + 1) return "inputs: want \"ids\", or one input a table";
  int column = 0;
  for (size_t t = 0; t < bundle_.tables.size(); t++) {
    const Table& table = bundle_.tables[t];
    auto found = all.find(table.name);
    if (found == all.end()) return "input \"" + table.name + "\": missing";
    inputs.tensors.push_back({&table.name, &found->second, int(t), 1, column, table.hotness, 0, 0});
    column += table.hotness;
  }
  return "";
}

// Makes runs of the tensors, and room for their ids.
void Decoder::lay_out(Inputs& inputs) const {
  inputs.runs.clear();
  for (IdTensor& ids : inputs.tensors) {
    const int rows = rows_of(*ids.tensor) == 1 ? 1 : inputs.count;
    if (inputs.runs.empty() || inputs.runs.back().count != rows) {
      inputs.runs.emplace_back();
      inputs.runs.back().first = ids.table;
      inputs.runs.back().count = rows;
    }
    Run& run = inputs.runs.back();
    ids.run = inputs.runs.size() - 1;
    ids.offset = run.ids;
    run.tables += ids.tables;
    run.ids += ids.width;
  }
  const bool one = inputs.runs.size() == 1;
  if (!one) inputs.shapes.resize(std::max(inputs.shapes.size(), inputs.runs.size()));
  size_t total = 0;
  for (size_t i = 0; i < inputs.runs.size(); i++) {
    Run& run = inputs.runs[i];
    run.at = total;
    total += size_t(run.count) * run.ids;
    run.shape = &whole_;
    if (one) continue;
    BagShape& shape = inputs.shapes[i];
    shape.dim = bundle_.dim;
    shape.ids = run.ids;
    shape.hot.assign(whole_.hot.begin() + run.first, whole_.hot.begin() + run.first + run.tables);
    run.shape = &shape;
  }
  inputs.rows.assign(total + kAhead, 0);
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
  std::string wrong = find(tensors, inputs);
  if (!wrong.empty()) return wrong;
  int64_t count = d.shape(0);
  for (const IdTensor& ids : inputs.tensors) count = std::max(count, rows_of(*ids.tensor));
  if (count > bundle_.max_batch) return "inputs: want 1 to " + std::to_string(bundle_.max_batch) + " rows";
  if (d.shape(0) != 1 && d.shape(0) != count) {
    return "input \"" + bundle_.dense + "\": got " + std::to_string(d.shape(0)) + " rows, want 1 or " + std::to_string(count);
  }
  inputs.count = int(count);
  inputs.dense = d.data().data();
  inputs.dense_rows = int(d.shape(0));
  lay_out(inputs);
  for (const IdTensor& ids : inputs.tensors) {
    wrong = read(ids, inputs);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace bench
