// From a sampler's standard coordinates z to the network's parameters, and back with the gradient.
//
// An entry is an array of parameters, or one hyper-parameter, with one prior:
//
//   u = location + scale * inner(z),  inner(z) = sinh(z) for heavy tails on the real line, else z;
//   value = exp(u) where it must be positive, else u.
//
// Location and scale are given, or follow from a hyper-parameter of the same position. The
// log-density of z under the prior is a function of z alone, since location and scale cancel; only
// where a prior is truncated to positive values it is that of u. See `inference/target.py`.
#pragma once

#include "functions.hpp"
#include "network.hpp"
#include "tiles.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// The log-density of one coordinate, but for its constant, and its derivative.
template <class T>
struct Term {
  Vector<T> value, slope;
};

template <class T>
TENSORBNN_INLINE Vector<T> sign_of(Vector<T> z) {
  return z > T(0) ? broadcast<T>(T(1)) : (z < T(0) ? broadcast<T>(T(-1)) : Vector<T>{});
}

// sinh and cosh, up to where cosh leaves the numbers of T.
template <class T>
struct Hyperbolic {
  Vector<T> sinh, cosh;
};

template <class T>
TENSORBNN_INLINE Hyperbolic<T> hyperbolic(Vector<T> z) {
  constexpr T bound = sizeof(T) == 4 ? T(88) : T(709);
  Vector<T> magnitude = absolute<T>(z);
  magnitude = magnitude > bound ? broadcast<T>(bound) : magnitude;
  const Reduced<T> reduced = reduce_by_log_two<T>(magnitude);
  const Vector<T> power = power_of_two<T>(reduced.n);
  const Vector<T> t = small_expm1<T>(reduced.r) * power + (power - T(1));  // exp(|z|) - 1
  const Vector<T> inverse = T(1) / (t + T(1));
  const Vector<T> sinh = T(0.5) * (t + t * inverse);
  return {z < T(0) ? -sinh : sinh, T(0.5) * ((t + T(1)) + inverse)};
}

template <class T>
TENSORBNN_INLINE Vector<T> log_cosh(Vector<T> z) {
  const Vector<T> magnitude = absolute<T>(z);
  return magnitude + log1p_of_fraction<T>(exp<T>(T(-2) * magnitude)) - T(0.6931471805599453);
}

// Of z, location and scale being cancelled.
template <class T>
TENSORBNN_INLINE Term<T> standard_term(Family family, T dof, Vector<T> z) {
  switch (family) {
    case Family::Normal: return {T(-0.5) * z * z, -z};
    case Family::Laplace: return {-absolute<T>(z), -sign_of<T>(z)};
    case Family::Cauchy: return {-log_cosh<T>(z), -tanh<T>(z)};
    case Family::StudentT: {
      const Hyperbolic<T> h = hyperbolic<T>(z);
      const Vector<T> square = h.sinh * h.sinh / dof;
      const Vector<T> slope = (dof + T(1)) / dof * h.sinh * h.cosh / (T(1) + square);
      return {T(-0.5) * (dof + T(1)) * log_above_one<T>(T(1) + square) + log_cosh<T>(z),
              tanh<T>(z) - slope};
    }
    case Family::Exponential: {
      const Vector<T> e = exp<T>(z);
      return {z - e, T(1) - e};
    }
    case Family::HalfNormal: {
      const Vector<T> square = exp<T>(T(2) * z);
      return {z - T(0.5) * square, T(1) - square};
    }
    default: {  // GammaPrecision
      const Vector<T> precision = exp<T>(T(-2) * z);
      return {-dof * (z + T(0.5) * precision), dof * (precision - T(1))};
    }
  }
}

// Of u, for a prior with these numbers that is truncated to positive values exp(u).
template <class T>
TENSORBNN_INLINE Term<T> truncated_term(const Entry& entry, Vector<T> u, Vector<T> value) {
  const T scale = static_cast<T>(entry.prior_scale), dof = static_cast<T>(entry.dof);
  const Vector<T> x = (value - static_cast<T>(entry.prior_location)) / scale;
  Term<T> of_x;
  switch (entry.family) {
    case Family::Normal: of_x = {T(-0.5) * x * x, -x}; break;
    case Family::Laplace: of_x = {-absolute<T>(x), -sign_of<T>(x)}; break;
    case Family::Cauchy:
      of_x = {-log_above_one<T>(T(1) + x * x), T(-2) * x / (T(1) + x * x)};
      break;
    default:  // StudentT
      of_x = {T(-0.5) * (dof + T(1)) * log_above_one<T>(T(1) + x * x / dof),
              -(dof + T(1)) * x / (dof + x * x)};
  }
  return {of_x.value + u, of_x.slope * value / scale + T(1)};
}

// A hyper-parameter at the current position, and the gradient that has reached it.
template <class T>
struct HyperValue {
  Vector<T> real, value;      // u and exp(u) or u
  Vector<T> by_real, by_value;
};

// One chain, or one a lane. Numbers of a chain stand in all lanes of a vector where it is alone.
template <class T, bool Chains>
class Coordinates {
 public:
  // `numbers` holds location and scale of each entry, `(entries, 2)`.
  Coordinates(const Prior& prior, const T* numbers) : prior_(prior), numbers_(numbers) {}

  // Natural values of the parameters; returns the log-density of z, but for its constant.
  Vector<T> forward(const T* z, T* values) {
    Vector<T> total = {};
    for (int e = 0; e < prior_.num_hypers; ++e) total += forward_hyper(e, z);
    if constexpr (!Chains) total = total / T(lanes<T>);  // the lanes will be summed
    for (int e = prior_.num_hypers; e < prior_.num_entries; ++e)
      total += forward_entry(e, z, values);
    return total;
  }

  Vector<T> hyper(int index) const { return hypers_[index].value; }
  void add_to_hyper(int index, Vector<T> gradient) { hypers_[index].by_value += gradient; }

  // `gradient` by the natural values becomes that by z of likelihood and prior together.
  void backward(const T* z, const T* values, const T* by_values, T* gradient) {
    for (int e = prior_.num_hypers; e < prior_.num_entries; ++e)
      backward_entry(e, z, values, by_values, gradient);
    for (int e = prior_.num_hypers - 1; e >= 0; --e) backward_hyper(e, z, gradient);
  }

 private:
  static constexpr size_t wide = step<T, Chains>;

  Vector<T> given(int entry, int which) const {
    return parameter<T, Chains>(numbers_ + (2 * entry + which) * wide);
  }

  Vector<T> location(int e) const {
    const Entry& entry = prior_.entries[e];
    if (entry.location_from < 0) return given(e, 0);
    const HyperValue<T>& from = hypers_[entry.location_from];
    if (entry.location_kind == LocationKind::Value) return from.value;
    return entry.location_kind == LocationKind::Logarithm ? from.real : -from.real;
  }

  Vector<T> scale(int e) const {
    const int from = prior_.entries[e].scale_from;
    return from < 0 ? given(e, 1) : hypers_[from].value;
  }

  void add_to_sources(const Entry& entry, Vector<T> by_location, Vector<T> by_scale) {
    if (entry.location_from >= 0) {
      HyperValue<T>& from = hypers_[entry.location_from];
      if (entry.location_kind == LocationKind::Value) from.by_value += by_location;
      if (entry.location_kind == LocationKind::Logarithm) from.by_real += by_location;
      if (entry.location_kind == LocationKind::NegativeLogarithm) from.by_real -= by_location;
    }
    if (entry.scale_from >= 0) hypers_[entry.scale_from].by_value += by_scale;
  }

  Vector<T> forward_hyper(int e, const T* z) {
    const Entry& entry = prior_.entries[e];
    const Vector<T> at = parameter<T, Chains>(z + entry.start * wide);
    const Vector<T> inner = entry.heavy ? hyperbolic<T>(at).sinh : at;
    HyperValue<T>& hyper = hypers_[e];
    hyper.real = location(e) + scale(e) * inner;
    hyper.value = entry.positive ? exp<T>(hyper.real) : hyper.real;
    hyper.by_real = hyper.by_value = Vector<T>{};
    return entry.truncated ? truncated_term<T>(entry, hyper.real, hyper.value).value
                           : standard_term<T>(entry.family, static_cast<T>(entry.dof), at).value;
  }

  void backward_hyper(int e, const T* z, T* gradient) {
    const Entry& entry = prior_.entries[e];
    const HyperValue<T>& hyper = hypers_[e];
    const Vector<T> at = parameter<T, Chains>(z + entry.start * wide);
    Vector<T> by_real = hyper.by_real + hyper.by_value * (entry.positive ? hyper.value
                                                                         : broadcast<T>(T(1)));
    Vector<T> by_z = {};
    if (entry.truncated)
      by_real += truncated_term<T>(entry, hyper.real, hyper.value).slope;
    else
      by_z = standard_term<T>(entry.family, static_cast<T>(entry.dof), at).slope;
    Vector<T> inner = at, derivative = scale(e);
    if (entry.heavy) {
      const Hyperbolic<T> h = hyperbolic<T>(at);
      inner = h.sinh;
      derivative = derivative * h.cosh;
    }
    by_z += by_real * derivative;
    add_to_sources(entry, by_real, by_real * inner);
    if constexpr (Chains)
      store(gradient + entry.start * wide, by_z);
    else
      gradient[entry.start] = by_z[0];
  }

  // Vectors of an entry: elements along the lanes, or one vector an element. The last may reach
  // into the next entry, or beyond the end, where there is room; what is there stays.
  static int vectors_of(const Entry& entry) {
    return Chains ? static_cast<int>(entry.size)
                  : static_cast<int>((entry.size + lanes<T> - 1) / lanes<T>);
  }
  static int count_of(const Entry& entry, int vector) {
    const int left = static_cast<int>(entry.size) - vector * lanes<T>;
    return Chains || left > lanes<T> ? lanes<T> : left;
  }
  static void store_first(T* to, Vector<T> value, int count) {
    if (count == lanes<T>) return store(to, value);
    store(to, lane_numbers<T>() < static_cast<typename Types<T>::Integer>(count) ? value : load(to));
  }

  // The usual case without any test inside its loop.
  static bool is_plain(const Entry& entry) {
    return entry.family == Family::Normal && !entry.positive && !entry.truncated;
  }

  Vector<T> forward_entry(int e, const T* z, T* values) {
    const Entry& entry = prior_.entries[e];
    const Vector<T> at_zero = location(e), width = scale(e);
    const T* from = z + entry.start * wide;
    T* to = values + entry.start * wide;
    Vector<T> total = {};
    const int vectors = vectors_of(entry);
    for (int n = 0; n < vectors; ++n) {
      const Vector<T> at = load(from + n * lanes<T>);
      const int count = count_of(entry, n);
      Vector<T> term, value;
      if (is_plain(entry)) {
        value = at_zero + width * at;
        term = T(-0.5) * at * at;
      } else {
        value = at_zero + width * (entry.heavy ? hyperbolic<T>(at).sinh : at);
        if (entry.positive) value = exp<T>(value);
        term = standard_term<T>(entry.family, static_cast<T>(entry.dof), at).value;
      }
      total += count == lanes<T> ? term : keep_first<T>(term, count);
      store_first(to + n * lanes<T>, value, count);
    }
    return total;
  }

  void backward_entry(int e, const T* z, const T* values, const T* by_values, T* gradient) {
    const Entry& entry = prior_.entries[e];
    const Vector<T> width = scale(e);
    const size_t start = entry.start * wide;
    Vector<T> by_location = {}, by_scale = {};
    const int vectors = vectors_of(entry);
    for (int n = 0; n < vectors; ++n) {
      const size_t here = start + n * lanes<T>;
      const Vector<T> at = load(z + here);
      const int count = count_of(entry, n);
      Vector<T> by_real = load(by_values + here), inner = at, by_z;
      if (is_plain(entry)) {
        by_z = width * by_real - at;
      } else {
        if (entry.positive) by_real = by_real * load(values + here);
        Vector<T> derivative = width;
        if (entry.heavy) {
          const Hyperbolic<T> h = hyperbolic<T>(at);
          inner = h.sinh;
          derivative = width * h.cosh;
        }
        by_z = derivative * by_real +
               standard_term<T>(entry.family, static_cast<T>(entry.dof), at).slope;
      }
      const Vector<T> kept = count == lanes<T> ? by_real : keep_first<T>(by_real, count);
      by_location += kept;
      by_scale += count == lanes<T> ? kept * inner : keep_first<T>(kept * inner, count);
      store_first(gradient + here, by_z, count);
    }
    if constexpr (!Chains) {
      if (entry.location_from < 0 && entry.scale_from < 0) return;
      by_location = broadcast<T>(static_cast<T>(sum<T>(by_location)));
      by_scale = broadcast<T>(static_cast<T>(sum<T>(by_scale)));
    }
    add_to_sources(entry, by_location, by_scale);
  }

  const Prior& prior_;
  const T* numbers_;
  HyperValue<T> hypers_[most_hypers];
};

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
