//! Rows by key, with a limit on the number of keys.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Number of keys that get a row of their own; later ones share one row.
pub const KEYS_MAX: usize = 20_000;

/// Rows in the order in which their keys arrived.
#[derive(Clone, Debug)]
pub struct BoundedMap<K, V> {
    places: FxHashMap<K, usize>,
    rows: Vec<V>,
    /// Row of all keys without a row of their own, if there are any.
    others: Option<V>,
}

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        Self { places: FxHashMap::default(), rows: Vec::new(), others: None }
    }
}

impl<K: Eq + Hash, V: Default> BoundedMap<K, V> {
    /// Returns the row of this key, or that of all others. `own` creates a new key.
    pub fn row<Q>(&mut self, key: &Q, own: impl FnOnce() -> K) -> &mut V
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let place = self.place(key, own);
        self.at(place)
    }

    /// Returns the number of that row; the row of all others has the largest number.
    pub fn place<Q>(&mut self, key: &Q, own: impl FnOnce() -> K) -> usize
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        match self.places.get(key) {
            Some(place) => *place,
            None if self.rows.len() < KEYS_MAX => {
                self.places.insert(own(), self.rows.len());
                self.rows.push(V::default());
                self.rows.len() - 1
            }
            None => usize::MAX,
        }
    }

    /// Returns the row with this number.
    pub fn at(&mut self, place: usize) -> &mut V {
        match self.rows.get_mut(place) {
            Some(row) => row,
            None => self.others.get_or_insert_default(),
        }
    }

    /// Returns the row with this number, if it is the row of one key.
    pub fn row_at(&self, place: usize) -> Option<&V> {
        self.rows.get(place)
    }

    /// Returns the row of this key, if it has one of its own.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.rows.get_mut(*self.places.get(key)?)
    }

    /// Returns the row of this key, if it has one of its own.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.rows.get(*self.places.get(key)?)
    }

    /// Returns all rows with their keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.places.iter().filter_map(|(key, place)| Some((key, self.rows.get(*place)?)))
    }

    /// Changes each row, that of all other keys included.
    pub fn each_mut(&mut self, change: impl FnMut(&mut V)) {
        self.rows.iter_mut().chain(&mut self.others).for_each(change);
    }

    /// Returns all keys with the numbers of their rows, in no order.
    pub fn keys(&self) -> impl Iterator<Item = (&K, usize)> {
        self.places.iter().map(|(key, place)| (key, *place))
    }

    /// Returns the row of the keys that arrived when there were [`KEYS_MAX`] keys.
    pub fn others(&self) -> Option<&V> {
        self.others.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_row_are_summed() {
        let mut all: BoundedMap<String, u64> = BoundedMap::default();
        for number in 0..KEYS_MAX + 3 {
            *all.row(number.to_string().as_str(), || number.to_string()) += 1;
        }
        *all.row("0", || "0".to_owned()) += 1;
        assert_eq!(all.iter().count(), KEYS_MAX);
        assert_eq!(all.iter().map(|it| it.1).sum::<u64>(), KEYS_MAX as u64 + 1);
        assert_eq!(all.others(), Some(&3));
    }
}
