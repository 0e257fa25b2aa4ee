// Amounts for people, in the form of the tables: three digits and a unit.
"use strict";
const amounts = (() => {
  // Units from the largest to the smallest, of which all values are whole.
  const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const SIZES = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
  const MINUTE_NS = 60e9, HOUR_NS = 60 * MINUTE_NS;

  const decimal = (number, decimals) =>
    number.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const count = (number) => decimal(number, 0);
  const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

  // Largest unit of which there is at least one after rounding.
  const unitOf = (amount, units) => units.find(([unit], place) => {
    const smaller = units[place + 1]?.[0] ?? 0;
    return amount >= unit || (smaller > 1 && Math.round(amount / smaller) >= 1000);
  }) ?? units.at(-1);
  const inUnits = (exact, units) => {
    const amount = Math.round(exact);
    const [unit, name] = unitOf(amount, units);
    const digits = (decimals) => Math.round((amount / unit) * 10 ** decimals);
    const decimals = unit === 1 ? 0 : [2, 1].find((decimals) => digits(decimals) < 1000) ?? 0;
    return `${decimal(digits(decimals) / 10 ** decimals, decimals)} ${name}`;
  };

  const size = (bytes) => inUnits(bytes, SIZES);
  const time = (ns) => {
    if (ns < 2 * MINUTE_NS) return inUnits(ns, TIMES);
    const whole = (ns, unit) => Math.floor(ns / unit);
    if (ns < HOUR_NS) return `${whole(ns, MINUTE_NS)} min ${whole(ns % MINUTE_NS, 1e9)} s`;
    return `${whole(ns, HOUR_NS)} h ${whole(ns % HOUR_NS, MINUTE_NS)} min`;
  };
  return { count, counted, size, time };
})();
