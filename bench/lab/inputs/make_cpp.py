"""Writes the C++ file that g++ and clang compile in the lab.

write(path, count) makes one C++17 file that includes the usual containers and has `count` groups of
templates, each instantiated with types of its own: maps, variants, tuples, a small
expression-template library, algorithms with lambdas. Most of the work is the front end's: parsing
headers and instantiating. The text depends on `count` alone.
"""

HEAD = """#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <typename L, typename R, typename Op> struct Node {
    L left;
    R right;
    constexpr auto operator()(double x) const { return Op{}(left(x), right(x)); }
};
struct Variable {
    constexpr double operator()(double x) const { return x; }
};
template <int N> struct Constant {
    constexpr double operator()(double) const { return N; }
};
template <int N> constexpr auto power() {
    if constexpr (N == 0) {
        return Constant<1>{};
    } else {
        using Rest = decltype(power<N - 1>());
        return Node<Variable, Rest, std::multiplies<>>{};
    }
}
template <int N, int... I> constexpr auto polynomial(std::integer_sequence<int, I...>) {
    return [](double x) { return ((power<I % 7>()(x) * (N + I)) + ...); };
}
"""

GROUP = """
namespace part_@N@ {
struct Key {
    int number = @N@;
    std::string name;
    bool operator<(const Key &other) const {
        return std::tie(number, name) < std::tie(other.number, other.name);
    }
};
using Value = std::variant<int, double, std::string, std::vector<Key>, std::shared_ptr<Key>>;
using Table = std::map<Key, std::vector<Value>>;

template <int I> struct Tag {
    std::tuple<Key, Value, std::unique_ptr<Table>> fields;
};

struct Measure {
    double operator()(int number) const { return number + @A@; }
    double operator()(double number) const { return number * @A@; }
    double operator()(const std::string &text) const { return text.size(); }
    double operator()(const std::vector<Key> &keys) const {
        return std::accumulate(keys.begin(), keys.end(), 0.0,
                               [](double sum, const Key &key) { return sum + key.number; });
    }
    double operator()(const std::shared_ptr<Key> &key) const { return key ? key->number : 0; }
};

template <int... I> double all(std::integer_sequence<int, I...>, const Table &table) {
    double sum = 0;
    std::tuple<Tag<I>...> tags;
    ((sum += std::get<0>(std::get<I>(tags).fields).number), ...);
    for (auto &[key, values] : table) {
        for (auto &value : values) sum += std::visit(Measure{}, value);
        sum += polynomial<@N@>(std::integer_sequence<int, I...>{})(key.number);
    }
    return sum;
}

double run(const std::vector<std::string> &words) {
    Table table;
    std::unordered_map<std::string, std::function<double(double)>> functions;
    for (auto &word : words) {
        table[Key{int(word.size()), word}].push_back(word + "@N@");
        functions[word] = [word](double x) { return x * word.size() + @A@; };
    }
    std::vector<std::pair<double, Key>> order;
    for (auto &[key, values] : table) order.emplace_back(functions[key.name](values.size()), key);
    std::stable_sort(order.begin(), order.end(),
                     [](auto &one, auto &two) { return one.first < two.first; });
    return all(std::make_integer_sequence<int, @A@>{}, table) + order.size();
}
} // namespace part_@N@
"""


def write(path, count):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEAD)
        for number in range(count):
            file.write(GROUP.replace("@N@", str(number)).replace("@A@", str(4 + number % 9)))
