#include "consumer/sinks/postgres/replaced_table.hpp"

#include "common/base/error.hpp"

namespace offramp {
namespace {

// The tables of $1, an array of names, and all that DROP TABLE takes along with them.
constexpr const char* kGone =
    "WITH RECURSIVE gone(classid, objid) AS ("
    "SELECT 'pg_class'::regclass::oid, to_regclass(name)::oid FROM unnest($1::text[]) AS name WHERE to_regclass(name) "
    "IS NOT NULL "
    "UNION SELECT d.classid, d.objid FROM pg_depend AS d JOIN gone ON (d.refclassid, d.refobjid) = (gone.classid, "
    "gone.objid) WHERE d.deptype IN ('a', 'i', 'P', 'S')) ";

// A view depends through its rule: this reports the view.
constexpr const char* kDependents =
    "SELECT pg_describe_object(coalesce(whole.refclassid, d.classid), coalesce(whole.refobjid, d.objid), 0) "
    "FROM gone JOIN pg_depend AS d ON (d.refclassid, d.refobjid) = (gone.classid, gone.objid) AND d.deptype = 'n' "
    "LEFT JOIN pg_depend AS whole ON (whole.classid, whole.objid) = (d.classid, d.objid) AND whole.deptype = 'i' "
    "WHERE NOT EXISTS (SELECT FROM gone AS other WHERE (other.classid, other.objid) = (d.classid, d.objid)) "
    "UNION SELECT pg_describe_object(classid, objid, 0) FROM gone WHERE classid = 'pg_policy'::regclass "
    "UNION SELECT 'row security of ' || pg_describe_object(classid, objid, 0) FROM gone JOIN pg_class ON pg_class.oid "
    "= objid AND relrowsecurity "
    "WHERE classid = 'pg_class'::regclass "
    "UNION SELECT pg_describe_object('pg_class'::regclass, attrelid, attnum) FROM pg_attribute "
    "WHERE attrelid = to_regclass($2) AND attnum > 0 AND NOT attisdropped AND attname <> ALL (string_to_array($3, ', "
    "')) ORDER BY 1";

// Keys and their indexes are made with every table, types are its own; $2: the names of Offramp's other indexes.
constexpr const char* kOwnedObjects =
    "SELECT pg_describe_object(classid, objid, 0) FROM gone WHERE "
    "classid IN ('pg_rewrite'::regclass, 'pg_publication_rel'::regclass, 'pg_statistic_ext'::regclass) "
    "OR EXISTS (SELECT FROM pg_trigger WHERE classid = 'pg_trigger'::regclass AND oid = objid AND NOT tgisinternal) "
    "OR EXISTS (SELECT FROM pg_constraint WHERE classid = 'pg_constraint'::regclass AND oid = objid AND contype NOT IN "
    "('p', 'n')) "
    "OR EXISTS (SELECT FROM pg_class WHERE classid = 'pg_class'::regclass AND pg_class.oid = objid AND relkind = 'i' "
    "AND relnamespace <> 'pg_toast'::regnamespace "
    "AND relname !~ $2 AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = objid)) ORDER BY 1";

// The privileges on $1, as statements for $2. The owner has all.
constexpr const char* kGrants =
    "SELECT format('GRANT %s ON %s TO %s%s', privilege_type, $2::text, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE "
    "quote_ident(pg_get_userbyid(grantee)) END, "
    "CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) "
    "FROM (SELECT relowner, a.grantee, a.is_grantable, a.privilege_type::text FROM pg_class, aclexplode(relacl) AS a "
    "WHERE pg_class.oid = to_regclass($1) "
    "UNION ALL SELECT relowner, a.grantee, a.is_grantable, format('%s (%I)', a.privilege_type, attname) "
    "FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid, aclexplode(attacl) AS a WHERE attrelid = "
    "to_regclass($1) AND NOT attisdropped) AS rights "
    "WHERE grantee <> relowner";

// The server's default privileges for new tables, not those of the previous table.
constexpr const char* kGrantedByDefault =
    "SELECT DISTINCT format('REVOKE ALL ON %s FROM %s', $1::text, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE "
    "quote_ident(pg_get_userbyid(grantee)) END) "
    "FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass($1) AND grantee <> relowner";

std::string in_array(const PostgresLayout& layout, const std::string& table) {
    std::string names;
    for (const std::string& suffix : suffixes_of(layout)) {
        std::string name;
        for (const char c : table_in_sql(table, suffix))
            name += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        names += (names.empty() ? "\"" : ",\"") + name + "\"";
    }
    return "{" + names + "}";
}

std::string listed(const std::vector<PostgresDatabase::Row>& rows) {
    std::string text;
    for (const PostgresDatabase::Row& row : rows) text += (text.empty() ? "" : ", ") + row.at(0).value_or("");
    return text;
}

void run_all(PostgresDatabase& database, const std::vector<PostgresDatabase::Row>& statements) {
    for (const PostgresDatabase::Row& statement : statements) database.run(statement.at(0).value_or(""));
}

}  // namespace

void require_replaceable_table(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    const std::string rows = table_in_sql(table);
    const std::string further = find_offramp_table(database, layout, table).further;
    const std::string ours = std::string(layout.columns) + (further.empty() ? "" : ", ") + further;
    const std::string dependents =
        listed(database.rows(std::string(kGone) + kDependents, {in_array(layout, table), rows, ours}));
    if (!dependents.empty())
        throw ConfigError(
            named(table, database) + " cannot be replaced without " + dependents,
            "Drop that, or keep the table with it under another name (ALTER TABLE " + rows +
                " RENAME TO ...), and repeat the run (a finished one with --resume); or give another --sink-table");
    if (database.rows("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass($1)", {rows})
            .at(0)
            .at(0) != "t")
        throw Error(ErrorKind::NotPermitted, named(table, database) + " cannot be replaced: it belongs to another user",
                    "Name its owner in --sink; or give another --sink-table");
}

std::string objects_removed_with(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    const std::string ours = "^(" + table.substr(table.find('.') + 1) + "|.*__offramp_next_[0-9a-f]+)(_hnsw(_[0-9]+)?" +
                             (layout.indexed.empty() ? std::string() : "|_" + std::string(layout.indexed) + "_idx") +
                             ")$";
    return listed(database.rows(std::string(kGone) + kOwnedObjects, {in_array(layout, table), ours}));
}

void carry_rights(PostgresDatabase& database, const PostgresLayout& layout, const std::string& from,
                  const std::string& to) {
    for (const std::string& suffix : suffixes_of(layout)) {
        const std::string previous = table_in_sql(from, suffix), next = table_in_sql(to, suffix);
        run_all(database, database.rows("SELECT format('ALTER TABLE %s OWNER TO %I', $2::text, "
                                        "pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass($1) "
                                        "AND relowner <> (SELECT relowner FROM pg_class WHERE oid = to_regclass($2))",
                                        {previous, next}));
        run_all(database, database.rows(kGrantedByDefault, {next}));
        run_all(database, database.rows(kGrants, {previous, next}));
    }
}

void rehearse_carrying_rights(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    // from the beginning where there is no '.'
    const std::string tried =
        table.substr(0, table.find('.') + 1) + std::string(layout.contents) + "__offramp_rehearsal";
    database.run("BEGIN");
    for (const std::string& suffix : suffixes_of(layout))
        database.run("CREATE TABLE " + table_in_sql(tried, suffix) + " (LIKE " + table_in_sql(table, suffix) + ")");
    carry_rights(database, layout, table, tried);
    database.run("ROLLBACK");
}

}  // namespace offramp
