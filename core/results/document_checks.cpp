#include "results/document_checks.h"

#include "optrush/error.h"
#include "optrush/options.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// A JSON object of a document. Its errors name its place.
class DocumentPart {
 public:
  DocumentPart(const Json& json, std::string subject, const std::string& where)
      : json_(json), subject_(std::move(subject)), where_(where) {
    checked({.type = "object"}, json_, subject_, where_);
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) throw Error(ErrorCode::invalid_file, named(key) + " is missing", {}, where_);
    return *it;
  }
  /// Requires each key, with this type.
  void need(const char* type, std::initializer_list<const char*> keys) const {
    for (const char* key : keys) checked({.type = type}, at(key), named(key), where_);
  }
  /// Each key may be missing; otherwise it has this type.
  void allow(const char* type, std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (has(key)) need(type, {key});
  }
  std::vector<DocumentPart> tables(const char* key) const {
    const Json& list = at(key);
    if (!list.is_array())
      throw Error(ErrorCode::invalid_file, named(key) + " must be a list, but is " + shown(list), {}, where_);
    std::vector<DocumentPart> parts;
    for (const Json& item : list) parts.emplace_back(item, "an entry of " + named(key), where_);
    return parts;
  }

 private:
  std::string named(const char* key) const { return "'" + std::string(key) + "' of " + subject_; }

  const Json& json_;
  std::string subject_;
  const std::string& where_;
};
}  // namespace

void check_tried(const Json& json, const std::string& where) {
  if (json.is_null()) return;
  const DocumentPart tried(json, "a search", where);
  tried.need("boolean", {"finished"});
  tried.need("string", {"best"});
  tried.allow("boolean", {"answered"});
  for (const DocumentPart& stage : tried.tables("stages")) {
    stage.need("string", {"reference"});
    for (const DocumentPart& stack : stage.tables("stacks")) {
      stack.need("string", {"stack", "change", "result"});
      stack.at("speed");
      stack.allow("integer", {"rounds"});
      stack.allow("boolean", {"faster"});
    }
  }
}
}  // namespace optrush
