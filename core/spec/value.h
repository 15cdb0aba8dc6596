#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"

namespace optrush {
/// The values that a schema allows, for messages: "an integer between 1 and 1024".
std::string allowed(const OptionSchema&);
/// `value` converted to the type of the schema: 8.0 is the integer 8, 1 is the number 1.0, and {} is an empty
/// list, because Lua has only one type for each. Otherwise an Error that names `subject`.
Json checked(const OptionSchema&, const Json& value, const std::string& subject, const std::string& where);
/// Throws an Error if `json` is not an object or has a key that is not in `keys`: "unknown field 'stesp' of
/// train", or "unknown option 'rnk'" without an owner.
void check_keys(const Json& json, const std::vector<std::string>& keys, const std::string& noun,
                const std::string& owner, const std::string& where);
/// Whether `name` is an identifier: a lower-case letter, then lower-case letters, digits and '_'.
bool is_name(std::string_view name);
/// A value given on the command line. For type "string" it is the text itself. Otherwise the text is parsed
/// as JSON if it is valid JSON, so strings need no quotes.
Json text_value(const std::string& text, const std::string& type = "");
/// Parses a size such as 20e9, "20GB" or "512 MiB" to bytes. An Error names `what` and lists the forms.
double bytes_from(const Json& given, const std::string& what);
/// The value as JSON for a message, shortened if it is long.
std::string shown(const Json&);
}  // namespace optrush
