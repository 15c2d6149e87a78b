//! Integer arithmetic, checked: what does not fit in 64 bits is an error, never a wrong number.

use msccl_syntax::ast::BinaryOp;

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It does not fit in 64 bits.
    Overflow,
    /// The divisor is zero.
    ZeroDivisor,
    /// The exponent is negative.
    NegativeExponent,
    /// The shift is not one of 0 to 63.
    Shift,
}

impl Fault {
    /// The message for the author.
    pub fn message(self) -> &'static str {
        match self {
            Fault::Overflow => "the result does not fit in 64 bits",
            Fault::ZeroDivisor => "this divides by zero",
            Fault::NegativeExponent => "the exponent is negative",
            Fault::Shift => "a shift is by 0 to 63 bits",
        }
    }
}

/// Whether the operator takes integers to an integer.
#[inline]
pub(super) fn makes_integer(op: BinaryOp) -> bool {
    use BinaryOp::*;
    match op {
        Add | Subtract | Multiply | Divide | Remainder | Power | ShiftLeft | ShiftRight | BitOr
        | BitXor | BitAnd => true,
        Or | And | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual => false,
    }
}

/// `a op b` for the operators from integers to an integer; `None` for the others.
#[inline]
pub(super) fn integer(op: BinaryOp, a: i64, b: i64) -> Option<Result<i64, Fault>> {
    let fits = |value: Option<i64>| value.ok_or(Fault::Overflow);
    Some(match op {
        BinaryOp::Add => fits(a.checked_add(b)),
        BinaryOp::Subtract => fits(a.checked_sub(b)),
        BinaryOp::Multiply => fits(a.checked_mul(b)),
        BinaryOp::Divide => divide(a, b),
        BinaryOp::Remainder => remainder(a, b),
        BinaryOp::Power => power(a, b),
        BinaryOp::ShiftLeft => shift_left(a, b),
        BinaryOp::ShiftRight => match b {
            0..64 => Ok(a >> b),
            _ => Err(Fault::Shift),
        },
        BinaryOp::BitOr => Ok(a | b),
        BinaryOp::BitXor => Ok(a ^ b),
        BinaryOp::BitAnd => Ok(a & b),
        BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual => return None,
    })
}

/// `a op b` for the comparisons of integers; `None` for the other operators.
#[inline]
pub(super) fn compare(op: BinaryOp, a: i64, b: i64) -> Option<bool> {
    Some(match op {
        BinaryOp::Equal => a == b,
        BinaryOp::NotEqual => a != b,
        BinaryOp::Less => a < b,
        BinaryOp::LessEqual => a <= b,
        BinaryOp::Greater => a > b,
        BinaryOp::GreaterEqual => a >= b,
        BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Add
        | BinaryOp::Subtract
        | BinaryOp::Multiply
        | BinaryOp::Divide
        | BinaryOp::Remainder
        | BinaryOp::Power
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::BitAnd => return None,
    })
}

/// Rounds down.
fn divide(a: i64, b: i64) -> Result<i64, Fault> {
    if b == 0 {
        return Err(Fault::ZeroDivisor);
    }
    let quotient = a.checked_div(b).ok_or(Fault::Overflow)?;
    let rounded_up = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
    Ok(quotient - i64::from(rounded_up))
}

/// Has the sign of the divisor.
fn remainder(a: i64, b: i64) -> Result<i64, Fault> {
    if b == 0 {
        return Err(Fault::ZeroDivisor);
    }
    let rest = a.wrapping_rem(b);
    let wrong_sign = rest != 0 && (rest < 0) != (b < 0);
    Ok(if wrong_sign { rest + b } else { rest })
}

fn power(a: i64, b: i64) -> Result<i64, Fault> {
    if b < 0 {
        return Err(Fault::NegativeExponent);
    }
    match (a, u32::try_from(b)) {
        (0 | 1, Err(_)) => Ok(a),
        (-1, Err(_)) => Ok(if b % 2 == 0 { 1 } else { -1 }),
        (_, Err(_)) => Err(Fault::Overflow),
        (_, Ok(exponent)) => a.checked_pow(exponent).ok_or(Fault::Overflow),
    }
}

fn shift_left(a: i64, b: i64) -> Result<i64, Fault> {
    if !(0..64).contains(&b) {
        return Err(Fault::Shift);
    }
    let shifted = a << b;
    if shifted >> b == a { Ok(shifted) } else { Err(Fault::Overflow) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: i64, op: BinaryOp, b: i64, expected: Result<i64, Fault>) {
        assert_eq!(integer(op, a, b), Some(expected), "{a} {op:?} {b}");
    }

    #[test]
    fn division_rounds_down_and_remainders_follow_the_divisor() {
        check(-7, BinaryOp::Divide, 2, Ok(-4));
        check(7, BinaryOp::Divide, -2, Ok(-4));
        check(-6, BinaryOp::Divide, 2, Ok(-3));
        check(-1, BinaryOp::Remainder, 8, Ok(7));
        check(7, BinaryOp::Remainder, -8, Ok(-1));
        check(i64::MIN, BinaryOp::Remainder, -1, Ok(0));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        check(i64::MAX, BinaryOp::Add, 1, Err(Fault::Overflow));
        check(i64::MIN, BinaryOp::Divide, -1, Err(Fault::Overflow));
        check(3, BinaryOp::Remainder, 0, Err(Fault::ZeroDivisor));
        check(1, BinaryOp::ShiftLeft, 62, Ok(1 << 62));
        check(1, BinaryOp::ShiftLeft, 63, Err(Fault::Overflow));
        check(1, BinaryOp::ShiftRight, 64, Err(Fault::Shift));
        check(2, BinaryOp::Power, 62, Ok(1 << 62));
        check(2, BinaryOp::Power, 63, Err(Fault::Overflow));
        check(2, BinaryOp::Power, -1, Err(Fault::NegativeExponent));
        check(-1, BinaryOp::Power, i64::MAX, Ok(-1));
    }
}
