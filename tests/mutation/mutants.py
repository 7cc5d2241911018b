"""Finds the places of a C++ source that a mutant can change, and writes the source with a switch at each of them."""

import pathlib
import re

from clang import cindex
from clang.cindex import CursorKind as Kind

KINDS = {
    "condition negated": "if, while, do, ?: and `return` of a bool",
    "comparison": "< and <=, > and >=, == and != for each other",
    "operand dropped": "a && b and a || b become a, or b",
    "arithmetic": "+ and -, * and /, += and -= for each other",
    "literal plus one": "an integer n becomes n + 1",
    "! dropped": "!a becomes a",
    "statement deleted": "a call, an assignment, ++ and --, `throw` in an if without else, continue, break",
}

# Left as they are, with the reason. Macros (DLFLOW_CHECK), headers and constant expressions are never changed.
EXEMPT_CALLS = {
    "log": "the log is for developers; no test should fix its words",
    "show_log": "the same",
    "crash_point": "kills in tests that ask for it, and does nothing elsewhere",
    "reserve": "changes speed, not what a program does",
    "shrink_to_fit": "changes memory, not what a program does",
}
EXEMPT_KINDS = {
    Kind.CXX_THROW_EXPR: "words of an error message; that it is thrown is a mutant of its own",
    Kind.ENUM_DECL: "constants of a format or of a protocol",
    Kind.STATIC_ASSERT: "fails when it is compiled",
    Kind.PARM_DECL: "types and defaults: callers' texts",
}

SWAPS = {"<": ("less", "<="), "<=": ("less_equal", "<"), ">": ("greater", ">="), ">=": ("greater_equal", ">"),
         "+": ("plus", "-"), "-": ("minus", "+"), "*": ("times", "/"), "/": ("divided", "*"),
         "+=": ("add", "-="), "-=": ("subtract", "+=")}
COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
LITERAL = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|[\d']+)[uUlLzZ]*")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.CONVERSION_FUNCTION,
             Kind.FUNCTION_TEMPLATE}
NUMBERS = {getattr(cindex.TypeKind, name) for name in (
    "CHAR_S CHAR_U SCHAR UCHAR SHORT USHORT INT UINT LONG ULONG LONGLONG ULONGLONG FLOAT DOUBLE").split()}


class Unreadable(Exception):
    """clang does not understand the source."""


def find(path, flags):
    """The mutants of a source, as values for JSON: what and where, and the insertions that put its switch in place.
    An insertion is [offset, closes, text]; `{}` in the text is the mutant's number."""
    unit = cindex.Index.create().parse(path, args=flags, options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    errors = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
    if errors:
        raise Unreadable("; ".join(errors[:3]))
    finder = _Finder(path)
    finder.find(unit)
    return finder.mutants


def rewritten(text, mutants, numbers):
    """The source with the switches of the mutants that have a number. Lines stay where they are."""
    return "".join(piece for _, _, piece in _pieces(text, mutants, numbers))


def original_offset(text, mutants, numbers, offset):
    """Which offset of `text` an offset of the rewritten source comes from."""
    for begin, copied, piece in _pieces(text, mutants, numbers):
        if offset < len(piece):
            return begin + offset if copied else begin
        offset -= len(piece)
    return len(text)


def _pieces(text, mutants, numbers):
    """The rewritten source in order: offset in `text`, whether the piece is copied from there, the piece."""
    edits = []
    for order, mutant in enumerate(mutants):
        if numbers[order] is None:
            continue
        for offset, closes, inserted in mutant["insert"]:
            # What ends here goes before what begins here; of what ends, the innermost first.
            rank = (0, -order) if closes else (1, order)
            edits.append((offset, rank, offset, inserted.replace("{}", str(numbers[order]))))
        for begin, end, replacement in mutant["replace"]:
            edits.append((begin, (2, order), end, replacement))
    at = 0
    for begin, _, end, inserted in sorted(edits):
        yield at, True, text[at:begin]
        yield begin, False, inserted
        at = end
    yield at, True, text[at:]


def _unwrapped(node):
    """Without the implicit conversions around it, which have no text of their own."""
    while node.kind == Kind.UNEXPOSED_EXPR:
        children = list(node.get_children())
        if len(children) != 1 or children[0].extent != node.extent:
            break
        node = children[0]
    return node


class _Finder:
    def __init__(self, path):
        self.path = path
        self.text = pathlib.Path(path).read_bytes().decode("latin-1")  # offsets are those of bytes
        self.mutants = []
        self.seen = set()
        self.macros = []

    def find(self, unit):
        own = [node for node in unit.cursor.get_children() if node.location.file and node.location.file.name == self.path]
        self.macros = [self.range(node) for node in own if node.kind == Kind.MACRO_INSTANTIATION]
        for node in own:
            self.visit(node)

    # Text of nodes.

    def range(self, node):
        return node.extent.start.offset, node.extent.end.offset

    def source(self, node):
        begin, end = self.range(node)
        return self.text[begin:end]

    def between(self, left, right):
        return COMMENT.sub("", self.text[left.extent.end.offset:right.extent.start.offset]).strip()

    def next_character(self, node):
        return COMMENT.sub("", self.text[node.extent.end.offset:node.extent.end.offset + 200]).lstrip()[:1]

    def changeable(self, node):
        begin, end = self.range(node)
        if node.extent.start.file is None or node.extent.start.file.name != self.path or begin >= end:
            return False
        return not any(first <= begin and end <= last for first, last in self.macros)

    def operator(self, node):
        """The binary operator, with its operands; built in or overloaded."""
        children = list(node.get_children())
        if node.kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR) and len(children) == 2:
            left, right = children
        elif node.kind == Kind.CALL_EXPR and len(children) == 3:
            left, _, right = children
        else:
            return None
        if left.extent.end.offset > right.extent.start.offset:
            return None
        if not all(self.changeable(each) or self.range(each) in self.macros for each in (left, right)):
            return None
        return self.between(left, right), left, right

    # Where mutants are.

    def visit(self, node):
        if node.kind in EXEMPT_KINDS or (node.kind == Kind.CALL_EXPR and node.spelling in EXEMPT_CALLS):
            return
        if node.kind in FUNCTIONS or node.kind in (Kind.VAR_DECL, Kind.FIELD_DECL):
            self.visit_declaration(node)
            return
        if self.changeable(node):
            self.mutate(node)
        children = list(node.get_children())
        if node.kind == Kind.CASE_STMT or self.is_if_constexpr(node):
            children = children[1:]  # a constant
        reference = node.kind in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR)
        for child in children:
            if not (reference and child.kind == Kind.INTEGER_LITERAL):  # a template's argument
                self.visit(child)

    def visit_declaration(self, node):
        """Only what follows the name: the rest are types."""
        head = self.text[node.extent.start.offset:node.location.offset]
        if re.search(r"\b(constexpr|consteval|constinit)\b", head):
            return
        for child in node.get_children():
            array_size = node.kind not in FUNCTIONS and self.next_character(child) == "]"
            if child.extent.start.offset >= node.location.offset and not array_size:
                self.visit(child)

    def mutate(self, node):
        children = list(node.get_children())
        if node.kind == Kind.IF_STMT:
            self.mutate_if(node, children)
        elif node.kind == Kind.WHILE_STMT:
            if self.next_character(children[-2]) == ")":  # otherwise it is a declaration
                self.negate(children[-2])
            self.delete(children[-1])
        elif node.kind == Kind.DO_STMT:
            self.negate(children[-1])
        elif node.kind == Kind.CONDITIONAL_OPERATOR:
            self.negate(children[0])
        elif node.kind == Kind.RETURN_STMT and children and children[0].type.get_canonical().kind == cindex.TypeKind.BOOL:
            self.negate(children[0])
        elif node.kind in (Kind.FOR_STMT, Kind.CXX_FOR_RANGE_STMT):
            self.delete(children[-1])
        elif node.kind in (Kind.COMPOUND_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT):
            for child in children:
                self.delete(child)
        elif node.kind == Kind.UNARY_OPERATOR and re.match(r"!(?!=)", self.source(node)):
            self.add("! dropped", node, self.source(node)[1:].strip(), [(node, "(bool(", ") != ::mutation::on({}))")])
        elif node.kind == Kind.INTEGER_LITERAL and LITERAL.fullmatch(self.source(node)):
            self.add("literal plus one", node, f"{self.source(node)} + 1", [(node, "(", " + ::mutation::on({}))")])
        else:
            self.mutate_operator(node)

    def is_if_constexpr(self, node):
        return node.kind == Kind.IF_STMT and re.match(r"if\s+constexpr", self.source(node))

    def mutate_if(self, node, children):
        has_else = re.search(r"\belse\b", "".join(self.between(a, b) for a, b in zip(children, children[1:])))
        branches = 2 if has_else else 1
        condition = children[-branches - 1]
        if self.next_character(condition) == ")" and not self.is_if_constexpr(node):  # otherwise it is a declaration
            self.negate(condition)
        for branch in children[-branches:]:
            self.delete(branch, with_else=bool(has_else))
            if not has_else:
                self.delete_throw(branch)

    def delete_throw(self, branch):
        statements = list(branch.get_children()) if branch.kind == Kind.COMPOUND_STMT else [branch]
        for statement in statements:
            if _unwrapped(statement).kind == Kind.CXX_THROW_EXPR and self.changeable(statement):
                self.delete_expression(statement)

    def negate(self, condition):
        """Unless the condition has a mutant of its own that does the same."""
        if not self.changeable(condition):
            return
        inner = _unwrapped(condition)
        while inner.kind == Kind.PAREN_EXPR:
            inner = _unwrapped(next(inner.get_children()))
        operator = self.operator(inner)
        negation = inner.kind == Kind.UNARY_OPERATOR and self.source(inner).startswith("!")
        if negation or (operator and operator[0] in ("==", "!=")):
            return
        self.add("condition negated", condition, f"!({self.source(condition)})",
                 [(condition, "(bool(", ") != ::mutation::on({}))")])

    def mutate_operator(self, node):
        found = self.operator(node)
        if not found:
            return
        symbol, left, right = found
        if symbol in ("==", "!="):
            other = "!=" if symbol == "==" else "=="
            self.add("comparison", node, f"{self.source(left)} {other} {self.source(right)}",
                     [(node, "((", ") != ::mutation::on({}))")])
        elif symbol in COMPARISONS or (symbol in SWAPS and self.is_number(node, right)):
            self.swap(node, symbol, left, right)
        elif symbol in ("&&", "||") and node.kind == Kind.BINARY_OPERATOR:
            drop = "(::mutation::on({}) || bool(" if symbol == "&&" else "(!::mutation::on({}) && bool("
            self.add("operand dropped", node, self.source(right), [(left, drop, "))")])
            self.add("operand dropped", node, self.source(left), [(right, drop, "))")])

    def is_number(self, node, right):
        """A number or a time; but there is no sum of two points in time."""
        kind = node.type.get_canonical()
        return kind.kind in NUMBERS or (kind.spelling.startswith("std::chrono::") and
                                        "time_point" not in right.type.get_canonical().spelling)

    def swap(self, node, symbol, left, right):
        function, other = SWAPS[symbol]
        begin, end = left.extent.end.offset, right.extent.start.offset
        at = self.text.index(symbol, begin, end)
        kind = "comparison" if symbol in COMPARISONS else "arithmetic"
        self.add(kind, node, f"{self.source(left)} {other} {self.source(right)}",
                 [(node, f"::mutation::{function}({{}}, ", ")")], replace=[(at, at + len(symbol), ",")])

    def delete(self, statement, with_else=False):
        if not self.changeable(statement):
            return
        inner = _unwrapped(statement)
        if inner.kind in (Kind.CONTINUE_STMT, Kind.BREAK_STMT):
            if not with_else:
                self.add("statement deleted", statement, "", [(statement, "if (!::mutation::on({})) ", "")])
        elif self.has_effect(inner):
            self.delete_expression(statement)

    def has_effect(self, node):
        if node.kind == Kind.CALL_EXPR:
            return node.spelling not in EXEMPT_CALLS
        if node.kind == Kind.BINARY_OPERATOR:
            found = self.operator(node)
            return bool(found) and found[0] == "="
        if node.kind == Kind.UNARY_OPERATOR:
            return self.source(node).startswith(("++", "--")) or self.source(node).endswith(("++", "--"))
        return node.kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR

    def delete_expression(self, statement):
        self.add("statement deleted", statement, "", [(statement, "::mutation::on({}) ? void() : void(", ")")])

    def add(self, kind, node, mutant, wraps, replace=()):
        begin, end = self.range(node)
        insert = []
        for wrapped, before, after in wraps:
            first, last = self.range(wrapped)
            insert += [(first, False, before), (last, True, after)]
        key = (kind, mutant, begin, end)
        if key in self.seen:  # clang shows some nodes twice
            return
        self.seen.add(key)
        line_begin = self.text.rfind("\n", 0, begin) + 1
        self.mutants.append({
            "kind": kind, "line": self.text.count("\n", 0, begin) + 1, "column": begin - line_begin + 1,
            "begin": begin, "end": end, "original": " ".join(self.text[begin:end].split()),
            "mutant": " ".join(mutant.split()), "insert": insert, "replace": list(replace)})
