// Options of a plugin: {"schemas": from its description, "given": from a script}.
#include "optrush/options.h"

#include "target.h"

FUZZ_TARGET(options) {
  using namespace optrush;
  fuzz::feed([&] {
    const Json input = parse_json(fuzz::text_of(data, size), "input");
    if (!input.is_object() || !input.contains("schemas") || !input["schemas"].is_array())
      throw Error("no input of this target");
    std::vector<OptionSchema> schemas;
    for (const Json& schema : input["schemas"]) schemas.push_back(OptionSchema::parse(schema, "description"));
    const Json once = Options(schemas, input.value("given", Json::object()), "script").json();
    try {
      fuzz::hold(Options(schemas, once, "script").json() == once, "complete options are left as they are");
    } catch (const Error& e) {
      fuzz::fail(std::string("checked options are refused: ") + e.what());
    }
  });
  return 0;
}
