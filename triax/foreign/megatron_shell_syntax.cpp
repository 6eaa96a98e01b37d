// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_syntax.h"

#include <algorithm>
#include <cctype>

namespace triax {
namespace {

// Deeper nesting of if, case and loops than any script has.
constexpr int kMaxDepth = 100;

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_name_start(char c) {
  return is_name_char(c) && std::isdigit(static_cast<unsigned char>(c)) == 0;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool ends_word(char c) {
  return is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' ||
         c == '<' || c == '>' || c == '(' || c == ')';
}

// Passes over $( … ), ${ … } and ` … ` whatever they nest. A stack of the
// closing bytes instead of recursion: the nesting is the file's.
class Skipper {
 public:
  explicit Skipper(std::string_view text) : text_(text) {}

  // `at` stands behind the opening; returns the place of its `close`, or npos.
  size_t find_close(size_t at, char close) const {
    std::string closers(1, close);
    while (at < text_.size()) {
      const char c = text_[at];
      if (c == '\\') {
        at += 2;
      } else if (c == closers.back()) {
        closers.pop_back();
        if (closers.empty()) {
          return at;
        }
        ++at;
      } else {
        at = step(at, closers);
      }
    }
    return std::string_view::npos;
  }

 private:
  size_t step(size_t at, std::string& closers) const {
    const char c = text_[at];
    const bool in_quotes = closers.back() == '"';
    const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
    if (c == '\'' && !in_quotes) {
      const size_t end = text_.find('\'', at + 1);
      return end == std::string_view::npos ? text_.size() : end + 1;
    }
    if (c == '"') {
      closers += '"';
    } else if (c == '$' && next == '(') {
      closers += ')';
      return at + 2;
    } else if (c == '$' && next == '{') {
      closers += '}';
      return at + 2;
    } else if (c == '`') {
      closers += '`';
    } else if (c == '(' && closers.back() == ')') {
      closers += ')';
    }
    return at + 1;
  }

  std::string_view text_;
};

// Reads words. Newlines, operators and reserved words are the parser's.
class WordReader {
 public:
  explicit WordReader(std::string_view text, size_t base = 0)
      : text_(text), base_(base) {}

  size_t at = 0;
  std::string error;

  bool is_done() const { return at >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at + ahead < text_.size() ? text_[at + ahead] : '\0';
  }

  ShellWord read_word() {
    ShellWord word;
    word.offset = base_ + at;
    while (!is_done() && !ends_word(peek()) && error.empty()) {
      read_piece(word, false);
    }
    return word;
  }

  // Everything to the end, as inside double quotes.
  ShellWord read_all() {
    ShellWord word;
    word.offset = base_;
    while (!is_done() && error.empty()) {
      if (peek() == '"' || peek() == '\'') {
        read_piece(word, false);
      } else if (ends_word(peek())) {
        add_text(word, base_ + at, peek(), false);
        ++at;
      } else {
        read_piece(word, false);
      }
    }
    return word;
  }

 private:
  // Text that is not contiguous in the file begins a new part.
  static void add_text(ShellWord& word, size_t offset, char c, bool quoted) {
    ShellPart* last = word.parts.empty() ? nullptr : &word.parts.back();
    if (last == nullptr || last->kind != ShellPart::Kind::kText ||
        last->is_quoted != quoted ||
        last->offset + last->text.size() != offset) {
      word.parts.push_back({ShellPart::Kind::kText, "", offset, quoted});
      last = &word.parts.back();
    }
    last->text += c;
  }

  void read_piece(ShellWord& word, bool quoted) {
    const char c = peek();
    if (c == '\\') {
      read_escape(word, quoted);
    } else if (c == '$') {
      read_dollar(word, quoted);
    } else if (c == '`') {
      read_skipped(word, quoted, 1, '`', ShellPart::Kind::kCommand);
    } else if (c == '"' && !quoted) {
      read_double_quotes(word);
    } else if (c == '\'' && !quoted) {
      read_single_quotes(word, 1);
    } else {
      add_text(word, base_ + at, c, quoted);
      ++at;
    }
  }

  void read_escape(ShellWord& word, bool quoted) {
    const char next = peek(1);
    const bool is_special = next == '$' || next == '`' || next == '"' ||
                            next == '\\' || next == '\n';
    if (next == '\r' && peek(2) == '\n') {
      at += 3;
    } else if (next == '\n') {
      at += 2;
    } else if (quoted && !is_special) {
      add_text(word, base_ + at, '\\', quoted);
      ++at;
    } else if (next == '\0') {
      ++at;
    } else {
      add_text(word, base_ + at + 1, next, true);
      at += 2;
    }
  }

  void read_dollar(ShellWord& word, bool quoted) {
    const char next = peek(1);
    if (next == '\'' && !quoted) {
      ++at;
      read_single_quotes(word, 1);
    } else if (next == '(' && peek(2) == '(') {
      read_arithmetic(word, quoted);
    } else if (next == '(') {
      read_skipped(word, quoted, 2, ')', ShellPart::Kind::kCommand);
    } else if (next == '{') {
      read_skipped(word, quoted, 2, '}', ShellPart::Kind::kParameter);
    } else {
      read_plain_parameter(word, quoted);
    }
  }

  void read_plain_parameter(ShellWord& word, bool quoted) {
    size_t end = at + 1;
    if (is_name_start(peek(1))) {
      while (end < text_.size() && is_name_char(text_[end])) {
        ++end;
      }
    } else if (std::isdigit(static_cast<unsigned char>(peek(1))) != 0 ||
               std::string_view("@*#?$!-").find(peek(1)) !=
                   std::string_view::npos) {
      ++end;
    }
    if (end == at + 1 || peek(1) == '\0') {
      add_text(word, base_ + at, '$', quoted);
      ++at;
      return;
    }
    word.parts.push_back({ShellPart::Kind::kParameter,
                          std::string(text_.substr(at + 1, end - at - 1)),
                          base_ + at,
                          quoted});
    at = end;
  }

  void read_arithmetic(ShellWord& word, bool quoted) {
    const size_t begin = at;
    const size_t end = Skipper(text_).find_close(at + 2, ')');
    if (end != std::string_view::npos && end > begin + 3 &&
        text_[end - 1] == ')') {
      word.parts.push_back(
          {ShellPart::Kind::kArithmetic,
           std::string(text_.substr(begin + 3, end - begin - 4)),
           base_ + begin,
           quoted});
      at = end + 1;
      return;
    }
    read_skipped(word, quoted, 2, ')', ShellPart::Kind::kCommand);
  }

  void read_skipped(ShellWord& word,
                    bool quoted,
                    size_t opening,
                    char close,
                    ShellPart::Kind kind) {
    const size_t begin = at;
    const size_t end = Skipper(text_).find_close(at + opening, close);
    if (end == std::string_view::npos) {
      error = "what opens here is never closed";
      return;
    }
    word.parts.push_back(
        {kind,
         std::string(text_.substr(begin + opening, end - begin - opening)),
         base_ + begin,
         quoted});
    at = end + 1;
  }

  void read_double_quotes(ShellWord& word) {
    const size_t begin = at;
    ++at;
    // An empty text keeps "" a word.
    word.parts.push_back({ShellPart::Kind::kText, "", base_ + at, true});
    while (!is_done() && peek() != '"' && error.empty()) {
      read_piece(word, true);
    }
    if (is_done() && error.empty()) {
      at = begin;
      error = "the quotes that open here are never closed";
      return;
    }
    ++at;
  }

  void read_single_quotes(ShellWord& word, size_t opening) {
    const size_t begin = at;
    const size_t end = text_.find('\'', at + opening);
    if (end == std::string_view::npos) {
      error = "the quotes that open here are never closed";
      return;
    }
    word.parts.push_back(
        {ShellPart::Kind::kText,
         std::string(text_.substr(begin + opening, end - begin - opening)),
         base_ + begin + opening,
         true});
    at = end + 1;
  }

  std::string_view text_;
  size_t base_;
};

// The bare text of a word without quotes or expansions; empty: it has some.
std::string_view bare(const ShellWord& word) {
  const bool is_bare = word.parts.size() == 1 &&
                       word.parts[0].kind == ShellPart::Kind::kText &&
                       !word.parts[0].is_quoted;
  return is_bare ? std::string_view(word.parts[0].text) : std::string_view();
}

class ScriptParser {
 public:
  explicit ScriptParser(std::string_view text) : text_(text), reader_(text) {}

  ShellScript parse() {
    ShellScript script;
    while (error_.empty() && !at_end()) {
      read_list(script.commands, {});
      if (error_.empty() && !at_end()) {
        // A stray `)`, `}`, `done`: pass over it, the rest still counts.
        skip_stray();
      }
    }
    script.error = error_;
    script.error_offset = error_offset_;
    return script;
  }

 private:
  bool at_end() {
    skip_blanks();
    return reader_.is_done();
  }

  void fail(const std::string& why) {
    if (error_.empty()) {
      error_ = why;
      error_offset_ = std::min(reader_.at, text_.size());
    }
  }

  void skip_stray() {
    if (ends_word(reader_.peek())) {
      ++reader_.at;
    } else {
      read_word();
    }
  }

  // Blanks, continued lines and comments; not the newline itself.
  void skip_blanks() {
    while (!reader_.is_done()) {
      const char c = reader_.peek();
      if (is_blank(c)) {
        ++reader_.at;
      } else if (c == '\\' && reader_.peek(1) == '\n') {
        reader_.at += 2;
      } else if (c == '\\' && reader_.peek(1) == '\r' &&
                 reader_.peek(2) == '\n') {
        reader_.at += 3;
      } else if (c == '#') {
        const size_t end = text_.find('\n', reader_.at);
        reader_.at = std::min(end, text_.size());
      } else {
        return;
      }
    }
  }

  void skip_newlines() {
    while (true) {
      skip_blanks();
      if (reader_.peek() != '\n') {
        return;
      }
      take_newline();
    }
  }

  // A newline ends the line, and begins the here-documents it asked for.
  void take_newline() {
    ++reader_.at;
    for (const std::string& delimiter : here_documents_) {
      skip_here_document(delimiter);
    }
    here_documents_.clear();
  }

  void skip_here_document(const std::string& delimiter) {
    while (reader_.at < text_.size()) {
      const size_t end = std::min(text_.find('\n', reader_.at), text_.size());
      std::string_view line = text_.substr(reader_.at, end - reader_.at);
      reader_.at = std::min(end + 1, text_.size());
      while (!line.empty() && line.front() == '\t') {
        line.remove_prefix(1);
      }
      while (!line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
      }
      if (line == delimiter) {
        return;
      }
    }
  }

  ShellWord read_word() {
    ShellWord word = reader_.read_word();
    if (!reader_.error.empty()) {
      fail(reader_.error);
    }
    return word;
  }

  // The bare word that comes next, without taking it.
  std::string_view next_bare_word() {
    skip_blanks();
    size_t end = reader_.at;
    while (end < text_.size() && !ends_word(text_[end])) {
      ++end;
    }
    return text_.substr(reader_.at, end - reader_.at);
  }

  bool next_is(std::initializer_list<std::string_view> words) {
    const std::string_view next = next_bare_word();
    return std::find(words.begin(), words.end(), next) != words.end();
  }

  bool take(std::string_view word) {
    if (next_bare_word() != word) {
      return false;
    }
    reader_.at += word.size();
    return true;
  }

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
      read_function(node, std::string(bare(read_word())));
    } else {
      read_simple(node);
    }
    --depth_;
  }

  void read_formula(ShellNode& node) {
    node.kind = ShellNode::Kind::kFormula;
    const size_t end = Skipper(text_).find_close(reader_.at + 1, ')');
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
    read_list(node.branches[0].body, {close});
    if (close == ")" ? reader_.peek() == ')' : next_is({close})) {
      ++reader_.at;
    }
    skip_redirections(node);
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
    skip_redirections(node);
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
      node.name = "(";
    } else {
      node.name = std::string(bare(read_word()));
      skip_newlines();
      if (take("in")) {
        read_words_to_line_end(node.words);
      }
    }
    read_loop_body(node);
  }

  void read_words_to_line_end(std::vector<ShellWord>& words) {
    skip_blanks();
    while (!reader_.is_done() && !ends_word(reader_.peek()) && error_.empty()) {
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
    skip_redirections(node);
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
    skip_redirections(node);
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
      if (ends_word(reader_.peek())) {
        if (reader_.peek() == '(' && node.words.size() == 1 &&
            node.assignments.empty() && !bare(node.words[0]).empty()) {
          const std::string name(bare(node.words[0]));
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
        may_assign = is_declaration(bare(node.words[0]));
        is_test = bare(node.words[0]) == "[[";
      } else if (is_test && bare(node.words.back()) == "]]") {
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
    if (!ends_word(c)) {
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
    if (end >= text_.size() || !is_name_start(text_[end])) {
      return false;
    }
    while (end < text_.size() && is_name_char(text_[end])) {
      ++end;
    }
    ShellAssignment assignment;
    assignment.name = std::string(text_.substr(reader_.at, end - reader_.at));
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
      if (ends_word(reader_.peek())) {
        ++reader_.at;
        continue;
      }
      assignment.words.push_back(read_word());
    }
  }

  void skip_redirections(ShellNode&) {
    skip_blanks();
    while (error_.empty() && skip_redirection()) {
      skip_blanks();
    }
  }

  // 2>&1, > FILE, &> FILE, << END, <<< WORD, <( … ).
  bool skip_redirection() {
    size_t at = reader_.at;
    while (at < text_.size() &&
           std::isdigit(static_cast<unsigned char>(text_[at])) != 0) {
      ++at;
    }
    if (at < text_.size() && text_[at] == '&' && at + 1 < text_.size() &&
        text_[at + 1] == '>') {
      ++at;
    }
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) {
      return false;
    }
    const char kind = text_[at];
    size_t arrows = 0;
    while (at < text_.size() && text_[at] == kind) {
      ++at;
      ++arrows;
    }
    reader_.at = at;
    if (kind == '<' && arrows == 2) {
      take_here_document();
      return true;
    }
    if (reader_.peek() == '(') {
      const size_t end = Skipper(text_).find_close(at + 1, ')');
      reader_.at = end == std::string_view::npos ? text_.size() : end + 1;
      return true;
    }
    if (reader_.peek() == '&' || reader_.peek() == '|') {
      ++reader_.at;
    }
    skip_blanks();
    if (!reader_.is_done() && !ends_word(reader_.peek())) {
      read_word();
    }
    return true;
  }

  void take_here_document() {
    if (reader_.peek() == '-') {
      ++reader_.at;
    }
    skip_blanks();
    std::string delimiter;
    for (const ShellPart& part : read_word().parts) {
      delimiter += part.text;
    }
    here_documents_.push_back(delimiter);
  }

  std::string_view text_;
  WordReader reader_;
  std::vector<std::string> here_documents_;
  std::string error_;
  size_t error_offset_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellScript parse_shell(std::string_view text) {
  return ScriptParser(text).parse();
}

ShellWord parse_shell_word(std::string_view text, size_t offset) {
  return WordReader(text, offset).read_all();
}

}  // namespace triax
