// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_syntax.h"

#include <cctype>

#include "triax/foreign/megatron_shell_cursor.h"

namespace triax {
namespace {

// Deeper nesting of if, case and loops than any script has.
constexpr int kMaxDepth = 100;

class ScriptParser : private ShellCursor {
 public:
  explicit ScriptParser(std::string_view text) : ShellCursor(text) {}

  ShellScript parse() {
    ShellScript script;
    while (error_.empty() && !at_end()) {
      read_list(script.commands, {});
      if (error_.empty() && !at_end()) {
        // The rest still counts.
        skip_stray();
      }
    }
    script.error = error_;
    script.error_offset = error_offset_;
    return script;
  }

 private:
  // Commands up to one of the closing words, a `)`, `;;` or the end.
  void read_list(ShellList& list,
                 std::initializer_list<std::string_view> closers) {
    char joined_by = ';';
    while (error_.empty()) {
      skip_newlines();
      const char c = reader_.peek();
      if (reader_.is_done() || c == ')' || next_is(closers) ||
          (c == ';' && reader_.peek(1) == ';')) {
        return;
      }
      if (next_is({"done", "fi", "esac", "}", "then", "do", "else", "elif"})) {
        return;
      }
      const size_t before = reader_.at;
      ShellNode node;
      node.joined_by = joined_by;
      read_command(node);
      list.push_back(std::move(node));
      joined_by = read_joint();
      if (reader_.at == before) {
        ++reader_.at;  // a byte no rule takes
      }
    }
  }

  // What stands between two commands. A pipe is as good as a semicolon.
  char read_joint() {
    skip_blanks();
    const char c = reader_.peek();
    const char next = reader_.peek(1);
    if (c == '&' && next == '&') {
      reader_.at += 2;
      return '&';
    }
    if (c == '|' && next == '|') {
      reader_.at += 2;
      return '|';
    }
    if ((c == ';' && next != ';') || c == '&' || c == '|') {
      ++reader_.at;
    }
    return ';';
  }

  void read_command(ShellNode& node) {
    if (++depth_ > kMaxDepth) {
      fail("commands are nested more than 100 deep");
      return;
    }
    skip_blanks();
    node.offset = reader_.at;
    if (reader_.peek() == '(' && reader_.peek(1) == '(') {
      read_formula(node);
    } else if (reader_.peek() == '(') {
      ++reader_.at;
      read_group(node, ")");
    } else if (take("{")) {
      read_group(node, "}");
    } else if (take("if")) {
      read_if(node);
    } else if (next_is({"while", "until"})) {
      read_word();
      read_loop(node);
    } else if (next_is({"for", "select"})) {
      read_word();
      read_for(node);
    } else if (take("case")) {
      read_case(node);
    } else if (take("function")) {
      skip_blanks();
      read_function(node, std::string(bare_text(read_word())));
    } else {
      read_simple(node);
    }
    --depth_;
  }

  void read_formula(ShellNode& node) {
    node.kind = ShellNode::Kind::kFormula;
    const size_t end = find_shell_close(text_, reader_.at + 1, ')');
    if (end == std::string_view::npos) {
      fail("what opens here is never closed");
      return;
    }
    const size_t begin = reader_.at + 2;
    node.name =
        std::string(text_.substr(begin, end > begin + 1 ? end - begin - 1 : 0));
    reader_.at = end + 1;
  }

  void read_group(ShellNode& node, std::string_view close) {
    node.kind = ShellNode::Kind::kGroup;
    node.branches.emplace_back();
    node.name = close == ")" ? std::string(1, '(') : std::string();
    read_list(node.branches[0].body, {close});
    if (close == ")" ? reader_.peek() == ')' : next_is({close})) {
      ++reader_.at;
    }
    skip_redirections();
  }

  void read_if(ShellNode& node) {
    node.kind = ShellNode::Kind::kIf;
    do {
      node.branches.emplace_back();
      read_list(node.branches.back().condition, {"then"});
      take("then");
      read_list(node.branches.back().body, {"elif", "else", "fi"});
    } while (error_.empty() && take("elif"));
    if (take("else")) {
      node.has_else = true;
      node.branches.emplace_back();
      read_list(node.branches.back().body, {"fi"});
    }
    if (!take("fi")) {
      fail("an if without its fi");
    }
    skip_redirections();
  }

  void read_loop(ShellNode& node) {
    node.kind = ShellNode::Kind::kLoop;
    node.branches.emplace_back();
    read_list(node.branches[0].condition, {"do"});
    read_loop_body(node);
  }

  void read_for(ShellNode& node) {
    node.kind = ShellNode::Kind::kLoop;
    node.branches.emplace_back();
    skip_blanks();
    if (reader_.peek() == '(') {
      ShellNode formula;
      read_formula(formula);
      node.name.assign(1, '(');
    } else {
      node.name = std::string(bare_text(read_word()));
      skip_newlines();
      if (take("in")) {
        read_words_to_line_end(node.words);
      }
    }
    read_loop_body(node);
  }

  void read_words_to_line_end(std::vector<ShellWord>& words) {
    skip_blanks();
    while (!reader_.is_done() && !ends_shell_word(reader_.peek()) &&
           error_.empty()) {
      words.push_back(read_word());
      skip_blanks();
    }
  }

  void read_loop_body(ShellNode& node) {
    skip_newlines();
    if (reader_.peek() == ';') {
      ++reader_.at;
      skip_newlines();
    }
    if (!take("do")) {
      fail("a loop without its do");
      return;
    }
    read_list(node.branches[0].body, {"done"});
    if (!take("done")) {
      fail("a loop without its done");
    }
    skip_redirections();
  }

  void read_case(ShellNode& node) {
    node.kind = ShellNode::Kind::kCase;
    skip_blanks();
    node.words.push_back(read_word());
    skip_newlines();
    take("in");
    skip_newlines();
    while (error_.empty() && !reader_.is_done() && !next_is({"esac"})) {
      node.branches.emplace_back();
      read_case_branch(node.branches.back());
      skip_newlines();
    }
    if (!take("esac")) {
      fail("a case without its esac");
    }
    skip_redirections();
  }

  void read_case_branch(ShellNode::Branch& branch) {
    if (reader_.peek() == '(') {
      ++reader_.at;
    }
    while (error_.empty() && !reader_.is_done()) {
      skip_blanks();
      branch.patterns.push_back(read_word());
      skip_blanks();
      if (reader_.peek() != '|') {
        break;
      }
      ++reader_.at;
    }
    if (reader_.peek() != ')') {
      fail("a case's pattern without its )");
      return;
    }
    ++reader_.at;
    read_list(branch.body, {"esac"});
    while (reader_.peek() == ';' || reader_.peek() == '&') {
      ++reader_.at;
    }
  }

  void read_function(ShellNode& node, const std::string& name) {
    node.kind = ShellNode::Kind::kFunction;
    node.name = name;
    skip_blanks();
    if (reader_.peek() == '(') {
      ++reader_.at;
      skip_blanks();
      if (reader_.peek() == ')') {
        ++reader_.at;
      }
    }
    skip_newlines();
    node.branches.emplace_back();
    node.branches[0].body.emplace_back();
    read_command(node.branches[0].body[0]);
  }

  void read_simple(ShellNode& node) {
    bool may_assign = true;
    bool is_test = false;
    while (error_.empty()) {
      skip_blanks();
      if (reader_.is_done() || skip_redirection()) {
        if (reader_.is_done()) {
          return;
        }
        continue;
      }
      if (is_test ? take_test_operator(node) : false) {
        continue;
      }
      if (ends_shell_word(reader_.peek())) {
        if (reader_.peek() == '(' && node.words.size() == 1 &&
            node.assignments.empty() && !bare_text(node.words[0]).empty()) {
          const std::string name(bare_text(node.words[0]));
          node.words.clear();
          read_function(node, name);
        }
        return;
      }
      if (may_assign && read_assignment(node)) {
        continue;
      }
      node.words.push_back(read_word());
      if (node.words.size() == 1) {
        may_assign = is_declaration(bare_text(node.words[0]));
        is_test = bare_text(node.words[0]) == "[[";
      } else if (is_test && bare_text(node.words.back()) == "]]") {
        is_test = false;
      }
    }
  }

  static bool is_declaration(std::string_view word) {
    return word == "export" || word == "declare" || word == "local" ||
           word == "readonly" || word == "typeset";
  }

  // Inside [[ ]] the operators are words.
  bool take_test_operator(ShellNode& node) {
    const char c = reader_.peek();
    if (c == '\n' || c == ';') {
      return false;
    }
    if (!ends_shell_word(c)) {
      return false;
    }
    const size_t length =
        c == reader_.peek(1) && (c == '&' || c == '|') ? 2 : 1;
    ShellWord word;
    word.offset = reader_.at;
    word.parts.push_back({ShellPart::Kind::kText,
                          std::string(text_.substr(reader_.at, length)),
                          reader_.at,
                          false});
    node.words.push_back(std::move(word));
    reader_.at += length;
    return true;
  }

  bool read_assignment(ShellNode& node) {
    size_t end = reader_.at;
    if (end >= text_.size() || !is_shell_name_start(text_[end])) {
      return false;
    }
    while (end < text_.size() && is_shell_name_char(text_[end])) {
      ++end;
    }
    ShellAssignment assignment;
    assignment.name = std::string(text_.substr(reader_.at, end - reader_.at));
    if (end < text_.size() && text_[end] == '[') {
      const size_t close = text_.find_first_of("]\n", end);
      if (close >= text_.size() || text_[close] == '\n') {
        return false;
      }
      assignment.is_item = true;
      end = close + 1;
    }
    if (end + 1 < text_.size() && text_[end] == '+' && text_[end + 1] == '=') {
      assignment.appends = true;
      ++end;
    }
    if (end >= text_.size() || text_[end] != '=') {
      return false;
    }
    reader_.at = end + 1;
    if (reader_.peek() == '(') {
      ++reader_.at;
      assignment.is_array = true;
      read_array(assignment);
    } else {
      assignment.words.push_back(read_word());
    }
    node.assignments.push_back(std::move(assignment));
    return true;
  }

  void read_array(ShellAssignment& assignment) {
    while (error_.empty()) {
      skip_newlines();
      if (reader_.is_done()) {
        fail("an array without its )");
        return;
      }
      if (reader_.peek() == ')') {
        ++reader_.at;
        return;
      }
      if (ends_shell_word(reader_.peek())) {
        ++reader_.at;
        continue;
      }
      assignment.words.push_back(read_word());
    }
  }

  int depth_ = 0;
};

}  // namespace

ShellScript parse_shell(std::string_view text) {
  return ScriptParser(text).parse();
}

}  // namespace triax
