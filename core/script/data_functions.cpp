#include "machine/torch_folder.h"
#include "script/functions.h"
#include "spec/data_line.h"
#include "spec/spec_json.h"

namespace optrush::functions {
namespace fs = std::filesystem;
namespace {
fs::path existing(const ScriptContext& context, const std::string& path) {
  fs::path found = context.resolve(path);
  if (!fs::exists(found))
    throw Error(ErrorCode::missing_file, "no file or folder '" + found.string() + "'",
                context.start_of(path));
  return found;
}

DataSpec validated(const DataSpec& data, const std::string& where) {
  return fields_of<DataSpec>().read(to_json(data), where);
}
/// Data from a file, a folder or a corpus, with the file extensions to read.
DataSpec read_from(const std::string& kind, ScriptContext& context, const Call& call) {
  DataSpec data{.kind = kind};
  const auto& source = call.arguments.at("source");
  if (source.is<Corpus>()) {
    data.path = source.object<Corpus>().path;
    data.extensions = source.object<Corpus>().extensions;
  } else {
    data.path = existing(context, source.text());
    if (kind != "text" && fs::is_regular_file(data.path)) check_lines(data.path, kind, call.where);
  }
  if (const auto* options = call.arguments.find("options"))
    options->table().read("extensions", data.extensions);
  return validated(data, call.where);
}
}  // namespace

Object random(ScriptContext&, const Call& call) { return validated({.kind = "random"}, call.where); }

Object text(ScriptContext& context, const Call& call) { return read_from("text", context, call); }

Object documents(ScriptContext& context, const Call& call) { return read_from("documents", context, call); }

Object preferences(ScriptContext& context, const Call& call) {
  return read_from("preferences", context, call);
}

Object tokens(ScriptContext& context, const Call& call) {
  const fs::path file = existing(context, call.arguments.at("file").text());
  if (!fs::is_regular_file(file))
    throw Error(ErrorCode::missing_file, "'" + file.string() + "' is not a file",
                "give a token file (docs/reference/formats.md)");
  return validated({.kind = "tokens", .path = file}, call.where);
}

Object corpus(ScriptContext&, const Call& call) {
  const Corpus corpus{
      .name = call.arguments.at("name").text(), .path = torch_folder() / "include", .extensions = {".h"}};
  if (!fs::is_directory(corpus.path))
    throw Error(ErrorCode::missing_file, "corpus '" + corpus.name + "': no folder '" + corpus.path + "'",
                "LibTorch is missing there; run the set-up again, or give rush.text a different folder");
  return corpus;
}
}  // namespace optrush::functions
