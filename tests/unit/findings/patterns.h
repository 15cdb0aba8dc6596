// Patterns of sentences, and a check for each.
#pragma once
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace optrush::test {
/// "1.52x", and "1.52x [1.48, 1.57]" or "1.52x": three groups.
inline const std::string kValue = R"((\d+\.\d+)x)", kRatio = kValue + R"((?: \[(\d+\.\d+), (\d+\.\d+)\])?)";
/// A name without and with a group.
inline const std::string kOneName = R"([A-Za-z]+(?: [a-z]+)?(?: \+ [A-Za-z]+)*)",
                         kName = "(" + kOneName + ")";

using Groups = std::vector<std::string>;
/// Patterns with a check of their groups. Group 0 is the whole sentence.
using Sentences = std::vector<std::pair<std::string, std::function<void(const Groups&)>>>;

// Only patterns.cpp instantiates std::regex_match and the like: they take seconds to compile.

/// Whether the whole text matches the pattern. Sets `groups`.
bool fits(const std::string& text, std::smatch& groups, const std::string& pattern);
bool fits(const std::string& text, const std::string& pattern);
/// Whether a part of the text matches the pattern. Sets the groups of the first match.
bool has(const std::string& text, std::smatch& groups, const std::string& pattern);
/// The groups of every match in the text.
std::vector<Groups> all_in(const std::string& text, const std::string& pattern);
/// The text without all matches of the pattern.
std::string without(const std::string& text, const std::string& pattern);
/// Checks the text by the first pattern that matches. False if none does.
bool check_by(const Sentences&, const std::string& text);
}  // namespace optrush::test
