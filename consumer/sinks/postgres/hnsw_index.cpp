#include "consumer/sinks/postgres/hnsw_index.hpp"

#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

void make_hnsw_index(PostgresDatabase& database, const std::string& table, std::string_view outputs_suffix) {
    const std::string name = table.substr(table.find('.') + 1) + "_hnsw";  // from the beginning where there is no '.'
    // the others' tables are not kept waiting
    const std::string lock = "offramp index of " + with_schema(database, table);
    const auto make = [&](const std::string& index, const std::string& of) {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock});
        database.run("CREATE INDEX IF NOT EXISTS " + quoted_identifier(index) + " ON " + table_in_sql(table) +
                     " USING hnsw " + of);
        database.run("SELECT pg_advisory_unlock(hashtextextended($1, 0))", {lock});
    };
    const std::string type = database
                                 .rows(
                                     "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = "
                                     "to_regclass($1) AND attname = 'vector'",
                                     {table_in_sql(table)})
                                 .at(0)
                                 .at(0)
                                 .value_or("");
    const std::string kind = type.find("halfvec") == std::string::npos ? "vector" : "halfvec";
    if (type.ends_with(')')) return make(name, "(vector " + kind + "_cosine_ops)");
    int number = 0;
    for (const PostgresDatabase::Row& row : database.rows("SELECT dimensions, quote_literal(output) FROM " +
                                                          table_in_sql(table, outputs_suffix) + " ORDER BY output"))
        make(name + "_" + std::to_string(++number), "((vector::" + kind + "(" + row.at(0).value_or("") + ")) " + kind +
                                                        "_cosine_ops) WHERE output = " + row.at(1).value_or(""));
}

}  // namespace offramp
