// From a sampler's standard coordinates z to the network's parameters, and back with the gradient.
//
// An entry is an array of parameters, or one hyper-parameter, with one prior:
//
//   u = location + scale * inner(z),  inner(z) = sinh(z) for heavy tails on the real line, else z;
//   value = exp(u) where it must be positive, else u.
//
// Location and scale are given, or come from a hyper-parameter of the same position. The
// log-density of z under the prior is a function of z alone, since location and scale cancel; for a
// prior truncated to positive values, it is a function of u. See `inference/target.py`.
#pragma once

#include "densities.hpp"
#include "tiles.hpp"

namespace tensorbnn {
namespace TENSORBNN_ISA {
namespace {

// A hyper-parameter at the current position, and its gradient so far.
template <class T>
struct HyperValue {
  Vector<T> real, value;      // u and exp(u) or u
  Vector<T> by_real, by_value;
};

// The gradient of an entry with respect to its location and scale.
template <class T>
struct Sources {
  Vector<T> by_location, by_scale;
};

// One chain, or one per lane. The numbers of a single chain are broadcast to all lanes of a vector.
template <class T, bool Chains>
class Coordinates {
 public:
  // `numbers` holds location and scale of each entry, `(entries, 2)`.
  Coordinates(const Prior& prior, const T* numbers) : prior_(prior), numbers_(numbers) {}

  // Natural values of the parameters; returns the log-density of z without its constant.
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

  // Turns the gradient with respect to natural values into that of likelihood and prior with
  // respect to z, and passes it to `sink`: vectors to `take`, hyper-parameters of a single chain to
  // `take_one`. Afterwards, the z it belongs to is not read again.
  template <class Sink>
  void backward(const T* z, const T* values, const T* by_values, Sink sink) {
    for (int e = prior_.num_hypers; e < prior_.num_entries; ++e)
      backward_entry(e, z, values, by_values, sink);
    for (int e = prior_.num_hypers - 1; e >= 0; --e) backward_hyper(e, z, sink);
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
                           : standard_term<T>(entry.family, static_cast<T>(entry.df), at).value;
  }

  template <class Sink>
  void backward_hyper(int e, const T* z, Sink sink) {
    const Entry& entry = prior_.entries[e];
    const HyperValue<T>& hyper = hypers_[e];
    const Vector<T> at = parameter<T, Chains>(z + entry.start * wide);
    Vector<T> by_real = hyper.by_real + hyper.by_value * (entry.positive ? hyper.value
                                                                         : broadcast<T>(T(1)));
    Vector<T> by_z = {};
    if (entry.truncated)
      by_real += truncated_term<T>(entry, hyper.real, hyper.value).slope;
    else
      by_z = standard_term<T>(entry.family, static_cast<T>(entry.df), at).slope;
    Vector<T> inner = at, derivative = scale(e);
    if (entry.heavy) {
      const Hyperbolic<T> h = hyperbolic<T>(at);
      inner = h.sinh;
      derivative = derivative * h.cosh;
    }
    by_z += by_real * derivative;
    add_to_sources(entry, by_real, by_real * inner);
    if constexpr (Chains)
      sink.take(entry.start * wide, by_z);
    else
      sink.take_one(entry.start, by_z[0]);
  }

  // Vectors of an entry: elements along the lanes, or one vector per element. The last may extend
  // into the next entry, which is written later, or into the padding at the end.
  static int vectors_of(const Entry& entry) {
    return Chains ? static_cast<int>(entry.size)
                  : static_cast<int>((entry.size + lanes<T> - 1) / lanes<T>);
  }
  static int count_of(const Entry& entry, int vector) {
    const int left = static_cast<int>(entry.size) - vector * lanes<T>;
    return Chains || left > lanes<T> ? lanes<T> : left;
  }

  // The usual case: a Normal prior of the real line.
  static bool is_plain(const Entry& entry) {
    return entry.family == Family::Normal && !entry.positive && !entry.truncated;
  }

  Vector<T> forward_entry(int e, const T* z, T* values) const {
    const Entry entry = prior_.entries[e];  // a copy stays in registers
    const Vector<T> at_zero = location(e), width = scale(e);
    const T* from = z + entry.start * wide;
    T* to = values + entry.start * wide;
    return is_plain(entry) ? forward_plain(entry, at_zero, width, from, to)
                           : forward_any(entry, at_zero, width, from, to);
  }

  static Vector<T> forward_plain(const Entry& entry, Vector<T> at_zero, Vector<T> width,
                                 const T* from, T* to) {
    Vector<T> even = {}, odd = {};  // two sums, to shorten the chain of dependencies
    const int vectors = vectors_of(entry), whole = Chains ? vectors : vectors - 1;
    const auto map = [&](int n) {
      const Vector<T> at = load(from + n * lanes<T>);
      store(to + n * lanes<T>, at_zero + width * at);
      return at * at;
    };
    int n = 0;
    for (; n + 2 <= whole; n += 2) {
      even += map(n);
      odd += map(n + 1);
    }
    for (; n < whole; ++n) even += map(n);
    if constexpr (!Chains) odd += keep_first<T>(map(n), count_of(entry, n));
    return T(-0.5) * (even + odd);
  }

  static Vector<T> forward_any(const Entry& entry, Vector<T> at_zero, Vector<T> width,
                               const T* from, T* to) {
    const T df = static_cast<T>(entry.df);
    Vector<T> total = {};
    const int vectors = vectors_of(entry);
    for (int n = 0; n < vectors; ++n) {
      const Vector<T> at = load(from + n * lanes<T>);
      const Vector<T> real = at_zero + width * (entry.heavy ? hyperbolic<T>(at).sinh : at);
      store(to + n * lanes<T>, entry.positive ? exp<T>(real) : real);
      total += keep<Chains>(standard_term<T>(entry.family, df, at).value, count_of(entry, n));
    }
    return total;
  }

  template <class Sink>
  void backward_entry(int e, const T* z, const T* values, const T* by_values, Sink sink) {
    const Entry entry = prior_.entries[e];
    const Vector<T> width = scale(e);
    const bool has_sources = entry.location_from >= 0 || entry.scale_from >= 0;
    Sources<T> sums = {};
    if (!is_plain(entry))
      sums = backward_any(entry, width, z, values, by_values, sink);
    else if (has_sources)
      sums = backward_plain<true>(entry, width, z, by_values, sink);
    else
      backward_plain<false>(entry, width, z, by_values, sink);
    if (!has_sources) return;
    if constexpr (!Chains) {
      sums.by_location = broadcast<T>(static_cast<T>(sum<T>(sums.by_location)));
      sums.by_scale = broadcast<T>(static_cast<T>(sum<T>(sums.by_scale)));
    }
    add_to_sources(entry, sums.by_location, sums.by_scale);
  }

  template <bool HasSources, class Sink>
  static Sources<T> backward_plain(const Entry& entry, Vector<T> width, const T* z,
                                   const T* by_values, Sink sink) {
    Sources<T> sums = {};
    const int vectors = vectors_of(entry);
    for (int n = 0; n < vectors; ++n) {
      const size_t here = entry.start * wide + n * lanes<T>;
      const Vector<T> at = load(z + here), by_real = load(by_values + here);
      if constexpr (HasSources) {
        const Vector<T> kept = keep<Chains>(by_real, count_of(entry, n));
        sums.by_location += kept;
        sums.by_scale += kept * at;
      }
      sink.take(here, width * by_real - at);
    }
    return sums;
  }

  template <class Sink>
  static Sources<T> backward_any(const Entry& entry, Vector<T> width, const T* z, const T* values,
                                 const T* by_values, Sink sink) {
    const T df = static_cast<T>(entry.df);
    Sources<T> sums = {};
    const int vectors = vectors_of(entry);
    for (int n = 0; n < vectors; ++n) {
      const size_t here = entry.start * wide + n * lanes<T>;
      const Vector<T> at = load(z + here);
      Vector<T> by_real = load(by_values + here), inner = at, derivative = width;
      if (entry.positive) by_real = by_real * load(values + here);
      if (entry.heavy) {
        const Hyperbolic<T> h = hyperbolic<T>(at);
        inner = h.sinh;
        derivative = width * h.cosh;
      }
      const int count = count_of(entry, n);
      sums.by_location += keep<Chains>(by_real, count);
      sums.by_scale += keep<Chains>(by_real * inner, count);
      sink.take(here, derivative * by_real + standard_term<T>(entry.family, df, at).slope);
    }
    return sums;
  }

  // All lanes where they are chains, else the first ones.
  template <bool All>
  static TENSORBNN_INLINE Vector<T> keep(Vector<T> value, int count) {
    return All || count == lanes<T> ? value : keep_first<T>(value, count);
  }

  const Prior& prior_;
  const T* numbers_;
  HyperValue<T> hypers_[most_hypers];
};

}  // namespace
}  // namespace TENSORBNN_ISA
}  // namespace tensorbnn
