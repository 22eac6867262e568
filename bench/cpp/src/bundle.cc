#include "bundle.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace bench {

namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

Struct parse(const std::string& what, const std::string& text) {
  Struct parsed;
  auto status = google::protobuf::util::JsonStringToMessage(text, &parsed);
  if (!status.ok()) throw Error("read " + what + ": " + status.ToString());
  return parsed;
}

const Value& field(const Struct& object, const char* name) {
  auto found = object.fields().find(name);
  if (found == object.fields().end()) throw Error(std::string("read manifest: field \"") + name + "\" is missing");
  return found->second;
}

std::string text(const Struct& object, const char* name) { return field(object, name).string_value(); }
int64_t number(const Struct& object, const char* name) { return int64_t(field(object, name).number_value()); }
const ListValue& list(const Struct& object, const char* name) { return field(object, name).list_value(); }

const Struct& only(const Struct& manifest, const char* name) {
  const ListValue& values = list(manifest, name);
  if (values.values_size() != 1) {
    throw Error("read manifest: got " + std::to_string(values.values_size()) + " " + name + ", want 1");
  }
  return values.values(0).struct_value();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) throw Error("read \"" + path + "\": " + std::strerror(errno));
  return content.str();
}

}  // namespace

Bundle open_bundle(const std::string& directory) {
  Struct manifest = parse("manifest", read_file(directory + "/manifest.json"));
  Bundle b;
  b.directory = directory;
  b.name = text(manifest, "name");
  b.version = text(manifest, "version");
  b.max_batch = int(number(manifest, "max_batch"));
  for (const Value& value : list(manifest, "tables").values()) {
    const Struct& t = value.struct_value();
    const Struct& slot = field(t, "slot").struct_value();
    if (b.tables.empty()) b.dim = int(number(t, "dim"));
    bool fits = number(t, "dim") == b.dim && number(t, "hotness") >= 1 && text(t, "combiner") == "sum" &&
                text(t, "id_policy") == "reject" && text(t, "row_dtype") == "float32" && number(slot, "array") == 0 &&
                number(slot, "offset") == 4 * int64_t(b.tables.size()) * b.dim;
    if (!fits) {
      throw Error("table \"" + text(t, "name") + "\": want float32 rows of one width, a fixed hotness, combiner sum, " +
                  "id policy reject, and pooled vectors one after the other");
    }
    b.tables.push_back({text(t, "name"), number(t, "rows"), int(number(t, "hotness")), text(t, "file"), text(t, "tensor")});
    b.ids += b.tables.back().hotness;
    b.total_rows += b.tables.back().rows;
  }
  const Struct& dense = only(manifest, "dense");
  const Struct& output = only(manifest, "outputs");
  b.dense = text(dense, "name");
  b.dense_width = int(number(dense, "width"));
  b.dense_column = int(number(field(dense, "slot").struct_value(), "offset") / 4);
  b.row_floats = int(number(only(manifest, "packed"), "stride") / 4);
  b.output = text(output, "name");
  if (number(output, "width") != 0) throw Error("output \"" + b.output + "\": want width 0 (one score a row)");
  return b;
}

Span find_tensor(const std::string& path, const std::string& tensor, int64_t rows, int dim) {
  std::ifstream file(path, std::ios::binary);
  uint64_t length = 0;
  std::string header;
  if (file.read(reinterpret_cast<char*>(&length), 8) && length < (64 << 20)) {
    header.resize(length);
    file.read(&header[0], length);
  }
  if (!file) throw Error("read header of \"" + path + "\": it ends early");
  Struct parsed = parse("header of \"" + path + "\"", header);
  const Struct& entry = field(parsed, tensor.c_str()).struct_value();
  const ListValue& shape = list(entry, "shape");
  const ListValue& ends = list(entry, "data_offsets");
  if (text(entry, "dtype") != "F32" || shape.values_size() != 2 || shape.values(0).number_value() != double(rows) ||
      shape.values(1).number_value() != dim) {
    throw Error("tensor \"" + tensor + "\" of \"" + path + "\": want float32 [" + std::to_string(rows) + ", " +
                std::to_string(dim) + "]");
  }
  int64_t start = int64_t(ends.values(0).number_value()), end = int64_t(ends.values(1).number_value());
  if (end - start != 4 * rows * dim) throw Error("tensor \"" + tensor + "\" of \"" + path + "\": wrong number of bytes");
  return {8 + int64_t(length) + start, end - start};
}

}  // namespace bench
