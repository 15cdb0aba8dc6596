#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace optrush {
/// The candidate nearest to `word` by edit distance with transpositions; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The candidate that has another name in other frameworks ("gpu" for cuda), otherwise the nearest one; "" if
/// there is none.
std::string meant(std::string_view word, const std::vector<std::string>& candidates);
/// "did you mean 'rank'?" if a candidate is near, otherwise "one of: alpha, dropout, rank".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);
/// A hint and another way: "did you mean 'a'? Or give b", "one of: a, c; or give b".
std::string or_else(std::string hint, std::string_view way);
/// The present name of a renamed field or option: "interleave" for "turns"; "" for other words.
std::string_view present_name(std::string_view former);
}  // namespace optrush
