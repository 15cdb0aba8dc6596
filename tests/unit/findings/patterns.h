// Sentences as patterns, and what is checked of each.
#pragma once
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace optrush::test {
/// "1.52x [1.48, 1.57]" or "1.52x".
inline const std::string kValue = R"((\d+\.\d+)x)", kRatio = kValue + R"( \[(\d+\.\d+), (\d+\.\d+)\])";
inline const std::string kName = R"(([A-Za-z]+(?: [a-z]+)?(?: \+ [A-Za-z]+)*))";

using Groups = std::vector<std::string>;
/// Patterns, and what has to hold of their groups, which begin with the whole sentence.
using Sentences = std::vector<std::pair<std::string, std::function<void(const Groups&)>>>;

// Templates of the library, which take seconds to compile: patterns.cpp alone has them.

/// Whether all of the text is of this pattern; its groups.
bool fits(const std::string& text, std::smatch& groups, const std::string& pattern);
bool fits(const std::string& text, const std::string& pattern);
/// Whether a part of the text is of this pattern; the groups of the first one.
bool has(const std::string& text, std::smatch& groups, const std::string& pattern);
/// The groups of every part of the text that is of this pattern.
std::vector<Groups> all_in(const std::string& text, const std::string& pattern);
/// The text less every part of this pattern.
std::string without(const std::string& text, const std::string& pattern);
/// Checks a text by the first pattern that it matches; false: it matches none.
bool check_by(const Sentences&, const std::string& text);
}  // namespace optrush::test
