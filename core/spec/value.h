#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"

namespace optrush {
/// "an integer between 1 and 1024", "one of 'full', 'every_n'": what a value of this schema may be.
std::string allowed(const OptionSchema&);
/// `value` in the schema's own type (8.0 is the integer 8, 1 the number 1.0, {} an empty list: Lua has one of
/// each), or an Error that starts with `subject`: "option 'rank'", "train.lr".
Json checked(const OptionSchema&, const Json& value, const std::string& subject, const std::string& where);
/// An Error where `json` is not an object or has a key that is not in `keys`: "unknown field 'stesp' of
/// train". Without an owner: "unknown option 'rnk'".
void check_keys(const Json& json, const std::vector<std::string>& keys, const std::string& noun,
                const std::string& owner, const std::string& where);
/// Whether `name` can be written in a script as it is: lower-case letters, digits and '_', a letter first.
bool is_name(std::string_view name);
/// The value as JSON for a message, shortened.
std::string shown(const Json&);
}  // namespace optrush
