"""Writes the Rust library that rustc compiles in the lab.

write(path, count) makes one file of `count` modules: a structure with derived traits, an
enumeration, a generic container with a trait, iterator chains and formatting, each with constants
of its own so that nothing is merged. It uses the standard library of Rust 1.63. The text depends on
`count` alone.
"""

MODULE = """
pub mod part_@N@ {
    use std::collections::{BTreeMap, HashMap};
    use std::fmt;

    #[derive(Clone, Debug, PartialEq, PartialOrd, Default)]
    pub struct Record {
        pub key: u64,
        pub name: String,
        pub weight: [f64; @A@],
        pub tags: Vec<Option<String>>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Token {
        Word(String),
        Number(i64),
        Pair(Box<Token>, Box<Token>),
        End,
    }

    pub trait Measure {
        fn measure(&self) -> u64;
    }

    impl Measure for Record {
        fn measure(&self) -> u64 {
            self.weight.iter().map(|w| (w * @F@.0) as u64).sum::<u64>() ^ self.key
        }
    }

    impl Measure for Token {
        fn measure(&self) -> u64 {
            match self {
                Token::Word(text) => text.bytes().fold(@H@, |h, b| (h ^ b as u64).wrapping_mul(31)),
                Token::Number(number) => *number as u64,
                Token::Pair(one, two) => one.measure().rotate_left(@S@) ^ two.measure(),
                Token::End => @S@,
            }
        }
    }

    pub struct Index<K, V> {
        by_key: BTreeMap<K, Vec<V>>,
        count: usize,
    }

    impl<K: Ord + Clone + fmt::Debug, V: Measure> Index<K, V> {
        pub fn new() -> Self {
            Index { by_key: BTreeMap::new(), count: 0 }
        }
        pub fn add(&mut self, key: K, value: V) -> Result<usize, String> {
            if value.measure() == @H@ {
                return Err(format!("bad value for {:?} in part @N@", key));
            }
            self.by_key.entry(key).or_insert_with(Vec::new).push(value);
            self.count += 1;
            Ok(self.count)
        }
        pub fn sums(&self) -> Vec<(K, u64)> {
            let mut sums: Vec<(K, u64)> = self
                .by_key
                .iter()
                .map(|(key, values)| (key.clone(), values.iter().map(Measure::measure).sum()))
                .filter(|(_, sum)| sum % @A@ != 0)
                .collect();
            sums.sort_by(|one, two| two.1.cmp(&one.1));
            sums
        }
    }

    pub fn tokens(text: &str) -> Vec<Token> {
        let mut found: Vec<Token> = text
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().map(Token::Number)\
.unwrap_or_else(|_| Token::Word(word.into())))
            .collect();
        if found.len() > @S@ {
            let last = found.pop().unwrap();
            found.push(Token::Pair(Box::new(last), Box::new(Token::End)));
        }
        found
    }

    pub fn run(text: &str) -> Result<u64, String> {
        let mut records = Index::<u64, Record>::new();
        let mut words = Index::<Token, Token>::new();
        let mut seen: HashMap<String, u32> = HashMap::new();
        for (place, token) in tokens(text).into_iter().enumerate() {
            let name = format!("{:?}-{:04x}", token, place);
            *seen.entry(name.clone()).or_default() += 1;
            let record = Record { key: place as u64, name, ..Default::default() };
            records.add(place as u64 % @A@, record)?;
            words.add(token.clone(), token)?;
        }
        let one: u64 = records.sums().iter().map(|(_, sum)| sum).sum();
        let two: u64 = words.sums().iter().map(|(key, sum)| sum ^ key.measure()).max().unwrap_or(0);
        Ok(one ^ two ^ seen.values().map(|&n| n as u64).sum::<u64>())
    }
}
"""


def write(path, count):
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            marks = {
                "@N@": number,
                "@A@": 3 + number % 7,
                "@F@": 2 + number % 19,
                "@H@": 1469598103 + number,
                "@S@": 1 + number % 13,
            }
            text = MODULE
            for mark, value in marks.items():
                text = text.replace(mark, str(value))
            file.write(text)
