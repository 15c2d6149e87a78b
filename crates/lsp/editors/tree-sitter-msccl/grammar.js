/**
 * The language `.msccl`, chapter by chapter as in docs/LANGUAGE.md.
 *
 * It accepts what `crates/syntax/src/grammar.pest` accepts; `tests/tree-sitter` holds the two
 * together. Things that pest says by looking ahead are said here otherwise: words that are keywords
 * in one place only are names as well, and where a statement ends is decided by what follows.
 */

const commaSep1 = (rule) => seq(rule, repeat(seq(',', rule)));
const commaSep = (rule) => optional(commaSep1(rule));
const binary = (left, operator, right) =>
  seq(field('left', left), field('operator', operator), field('right', right));

module.exports = grammar({
  name: 'msccl',

  extras: ($) => [/[ \t\r\n\uFEFF]/, $.comment],

  word: ($) => $.identifier,

  conflicts: ($) => [
    [$.bytes],
    [$.assignment],
    [$.call_statement],
    [$._primary, $.list_pattern],
  ],

  reserved: {
    global: (_) => [
      'import', 'fn', 'collective', 'algorithm', 'implements', 'in', 'place', 'let', 'if', 'then',
      'else', 'for', 'on', 'by', 'scratch', 'require', 'given', 'promise', 'sum', 'and', 'or',
      'not', 'true', 'false', 'input', 'output',
    ],
  },

  rules: {
    source_file: ($) => seq(repeat($.import), repeat($._item)),

    _item: ($) => choice($.function, $.collective, $.algorithm),

    comment: (_) => token(seq('//', /[^\n]*/)),

    // --- Files -----------------------------------------------------------------------------------

    import: ($) => seq('import', field('module', choice($.string, $._name))),

    function: ($) =>
      seq(
        'fn',
        field('name', $._name),
        field('parameters', $.parameters),
        choice(seq('=', field('value', $._expression)), field('body', $.block)),
      ),

    collective: ($) =>
      seq(
        'collective',
        field('name', $._name),
        field('parameters', $.parameters),
        field('body', $.block),
      ),

    algorithm: ($) =>
      seq(
        'algorithm',
        field('name', $._name),
        field('parameters', $.parameters),
        'implements',
        field('implements', $.implements),
        repeat($._clause),
        field('body', $.block),
      ),

    parameters: ($) => seq('(', commaSep($.parameter), ')'),
    parameter: ($) =>
      seq(
        optional(field('role', choice('ranks', 'per_node'))),
        field('name', $._name),
        optional(seq('=', field('default', $._expression))),
      ),

    implements: ($) => seq(field('name', $._name), '(', commaSep($.label), ')'),
    label: ($) => seq(field('name', $._name), field('value', $._expression)),

    _clause: ($) =>
      choice(
        $.in_place,
        $.protocol,
        $.instances,
        $.interleaved,
        $.bytes,
        $.threads,
        $.order,
      ),
    in_place: (_) => seq('in', 'place'),
    protocol: ($) => seq('protocol', field('name', $._name)),
    instances: ($) => seq('instances', field('count', $._expression)),
    interleaved: ($) => seq('interleaved', field('count', $._expression)),
    bytes: ($) =>
      seq('bytes', field('from', $._arithmetic), '..', optional(field('to', $._arithmetic))),
    threads: ($) => seq('threads', field('count', $._expression)),
    order: ($) => seq('order', field('name', $._name)),

    // --- Statements ------------------------------------------------------------------------------

    block: ($) => seq('{', repeat($._statement), '}'),

    _statement: ($) =>
      choice(
        $.let,
        $.if,
        $.for,
        $.on,
        $.scratch,
        $.require,
        $.given,
        $.promise,
        $.assignment,
        $.call_statement,
      ),

    let: ($) => seq('let', field('name', $._name), '=', field('value', $._expression)),

    if: ($) =>
      prec.right(
        seq(
          'if',
          field('condition', $._expression),
          field('then', $.block),
          optional(seq('else', field('else', choice($.block, $.if)))),
        ),
      ),

    for: ($) =>
      seq('for', $._binders, optional($.hints), field('body', $.block)),

    on: ($) => seq($.hints, field('body', $.block)),

    scratch: ($) =>
      seq('scratch', field('name', $._name), '[', field('chunks', $._expression), ']'),

    require: ($) =>
      seq(
        'require',
        field('condition', $._expression),
        optional(seq(',', field('message', $.string))),
      ),

    given: ($) => seq('given', field('region', $._expression)),

    promise: ($) => seq('promise', field('place', $._place), '=', field('value', $._expression)),

    assignment: ($) =>
      seq(
        field('place', $._place),
        field('operator', choice('=', '+=')),
        field('value', $._expression),
        optional($.hints),
      ),

    call_statement: ($) => seq($.call, optional($.hints)),

    _binders: ($) => seq(commaSep1($.binder), optional(seq('if', field('filter', $._expression)))),
    binder: ($) => seq(field('pattern', $._pattern), 'in', field('domain', $._expression)),
    _pattern: ($) => choice($._name, $.list_pattern),
    list_pattern: ($) => seq('[', commaSep1($._name), ']'),

    hints: ($) => prec.right(seq('on', commaSep1($.hint))),
    hint: ($) =>
      seq(
        field('kind', choice('channel', 'tb', seq('send', 'tb'), seq('receive', 'tb'))),
        field('value', $._expression),
      ),

    // --- Expressions -----------------------------------------------------------------------------

    _place: ($) =>
      choice(
        $._name,
        $.buffer,
        $.call,
        alias($._place_index, $.index),
        alias($._place_at, $.at),
      ),
    _place_index: ($) => seq(field('base', $._place), '[', field('index', $._expression), ']'),
    _place_at: ($) => seq(field('buffer', $._place), '@', field('rank', $._rank)),

    _expression: ($) => choice($.conditional, $._operation),

    conditional: ($) =>
      seq(
        'if',
        field('condition', $._operation),
        'then',
        field('then', $._operation),
        'else',
        field('else', $._expression),
      ),

    // From weakest to strongest; comparisons and ranges are not chained.
    _operation: ($) => choice(alias($._or, $.binary), $._conjunction),
    _or: ($) => binary(choice(alias($._or, $.binary), $._conjunction), 'or', $._conjunction),

    _conjunction: ($) => choice(alias($._and, $.binary), $._negation),
    _and: ($) => binary(choice(alias($._and, $.binary), $._negation), 'and', $._negation),

    _negation: ($) => choice($.not, $._comparison),
    not: ($) => seq('not', field('operand', $._negation)),

    _comparison: ($) => choice(alias($._compared, $.binary), $._interval),
    _compared: ($) =>
      binary($._interval, choice('==', '!=', '<', '<=', '>', '>='), $._interval),

    _interval: ($) => choice($.range, $._arithmetic),
    range: ($) =>
      seq(
        field('from', $._arithmetic),
        '..',
        field('to', $._arithmetic),
        optional(seq('by', field('step', $._arithmetic))),
      ),

    _arithmetic: ($) => choice($.binary, $.unary, $._operand),

    binary: ($) => {
      const left = [
        [1, '|'],
        [2, '^'],
        [3, '&'],
        [4, choice('<<', '>>')],
        [5, choice('+', '-')],
        [6, choice('*', '/', '%')],
      ].map(([level, operator]) =>
        prec.left(level, binary($._arithmetic, operator, $._arithmetic)),
      );
      return choice(...left, prec.right(8, binary($._arithmetic, '**', $._arithmetic)));
    },

    unary: ($) => prec(7, seq('-', field('operand', $._arithmetic))),

    _operand: ($) => choice($._primary, $.index, $.at),
    index: ($) => prec(20, seq(field('base', $._operand), '[', field('index', $._expression), ']')),
    at: ($) => prec(20, seq(field('buffer', $._operand), '@', field('rank', $._rank))),
    _rank: ($) => choice($.integer, $._name, $.parenthesized),

    _primary: ($) =>
      choice(
        $.integer,
        $.boolean,
        $.string,
        $.sum,
        $.call,
        $._name,
        $.buffer,
        $.parenthesized,
        $.comprehension,
        $.list,
      ),

    call: ($) =>
      prec(
        21,
        seq(field('function', $._name), '(', field('arguments', commaSep($._expression)), ')'),
      ),
    sum: ($) => seq('sum', '(', $._binders, ':', field('term', $._expression), ')'),
    parenthesized: ($) => seq('(', $._expression, ')'),
    comprehension: ($) => seq('[', $._binders, ':', field('element', $._expression), ']'),
    list: ($) => seq('[', commaSep($._expression), ']'),

    // --- Tokens ----------------------------------------------------------------------------------

    // Words with a meaning in one place only are names elsewhere.
    _name: ($) =>
      choice(
        $.identifier,
        alias(
          choice(
            'ranks',
            'per_node',
            'protocol',
            'instances',
            'interleaved',
            'bytes',
            'threads',
            'order',
            'channel',
            'tb',
            'send',
            'receive',
          ),
          $.identifier,
        ),
      ),
    identifier: (_) => /[A-Za-z_][A-Za-z0-9_]*/,
    buffer: (_) => choice('input', 'output'),
    boolean: (_) => choice('true', 'false'),
    integer: (_) => token(/[0-9][0-9_]*(KiB|MiB|GiB)?/),
    string: (_) => token(/"([^"\\\n]|\\[^\n])*"/),
  },
});
