"""Answers of an engine to the questions of docs/guides/queries.md, as JSON: ENGINE GUIDE"""

import json
import re
import sys
from decimal import Decimal


def plain(value):
    if value is None or isinstance(value, str):
        return value
    return float(value) if isinstance(value, (int, float, Decimal)) else str(value)


engine, guide = sys.argv[1], open(sys.argv[2]).read()
sql, python = (re.findall(rf"```{language}\n(.*?)```", guide, re.S) for language in ("sql", "python"))
counts = "select name, count(*), sum(coalesce(bytes, 0)) from operations where kind = 'syscall' group by name"
if engine == "duckdb":
    import duckdb

    connection = duckdb.connect()
    connection.execute(sql[0])
    answers = [connection.execute(query).fetchall() for query in [*sql[1:], counts]]
elif engine == "pyspark":
    exec(python[0])
    answers = [spark.sql(query).collect() for query in [*sql[1:], counts]]
else:
    exec(python[1])
    questions = [hot_files, stragglers, bandwidth, shared_files, p99_by_host, written_back]
    counted = operations.filter(col("kind") == "syscall").group_by("name").agg(pl.len(), col("bytes").sum())
    answers = [question.collect().rows() for question in [*questions, counted]]
print(json.dumps([[[plain(value) for value in row] for row in rows] for rows in answers]))
