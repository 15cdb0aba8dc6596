#include "results/document_checks.h"

#include "optrush/error.h"
#include "optrush/options.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// A table of a document, with its place in each error.
class DocumentPart {
 public:
  DocumentPart(const Json& json, std::string subject, const std::string& where)
      : json_(json), subject_(std::move(subject)), where_(where) {
    checked({.type = "object"}, json_, subject_, where_);
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) throw Error(named(key) + " is missing", {}, where_);
    return *it;
  }
  DocumentPart part(const char* key) const { return {at(key), named(key), where_}; }
  /// Each has to be there, in this type.
  void need(const char* type, std::initializer_list<const char*> keys) const {
    for (const char* key : keys) checked({.type = type}, at(key), named(key), where_);
  }
  /// Each may be missing.
  void allow(const char* type, std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (has(key)) need(type, {key});
  }
  void need_all(const char* type) const {
    for (const auto& [key, value] : json_.items()) checked({.type = type}, value, named(key.c_str()), where_);
  }
  void need_one_of(const char* key, const std::vector<std::string>& choices) const {
    checked({.type = "string", .choices = choices}, at(key), named(key), where_);
  }
  std::vector<DocumentPart> tables(const char* key) const { return tables_of(at(key), named(key), where_); }
  static std::vector<DocumentPart> tables_of(const Json& list, const std::string& subject,
                                             const std::string& where) {
    if (!list.is_array()) throw Error(subject + " must be a list, but is " + shown(list), {}, where);
    std::vector<DocumentPart> parts;
    for (const Json& item : list) parts.emplace_back(item, "an entry of " + subject, where);
    return parts;
  }

  std::string named(const char* key) const { return "'" + std::string(key) + "' of " + subject_; }

 private:
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
