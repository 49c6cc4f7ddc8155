-- Version 3: small records that all services share. Nothing that version 2 uses is changed.

-- The row of a kind is locked by whoever changes a record of it, so that revisions are committed in their order.
create table record_kinds (kind text primary key, revision bigint not null) with (fillfactor = 50);

create table records (
    kind text not null,
    key text not null,
    revision bigint not null,
    value bytea not null,
    primary key (kind, key)
) with (fillfactor = 80);

-- Which records need a shared file.
create table record_files (
    sha256 bytea not null,
    kind text not null,
    key text not null,
    primary key (sha256, kind, key)
);
create index record_files_record on record_files (kind, key);

-- Changes of the last hour: one whose answer was lost is not made twice.
create table record_changes (
    change uuid primary key,
    revision bigint not null,
    made_at timestamptz not null default now()
);
create index record_changes_made on record_changes (made_at);

-- Changes a record, if it is as expected: -1 absent, 0 anything, else last changed at that revision. Without a value it is removed.
-- If it is not as expected, `o_done` is null, and the record that was found is told.
create function change_record_1(
    p_change uuid, p_kind text, p_key text, p_expected bigint, p_value bytea, p_files bytea[],
    out o_done bigint, out o_found bigint, out o_value bytea
) language plpgsql as $$
begin
    insert into record_kinds values (p_kind, 0) on conflict do nothing;
    perform from record_kinds where kind = p_kind for update;
    select revision into o_done from record_changes where change = p_change;
    if o_done is not null then
        return;
    end if;
    select revision, value into o_found, o_value from records where kind = p_kind and key = p_key;
    if p_expected = -1 and o_found is not null or p_expected > 0 and o_found is distinct from p_expected then
        return;
    end if;
    if p_value is null and o_found is null then
        select revision into o_done from record_kinds where kind = p_kind;
        return;
    end if;
    update record_kinds set revision = revision + 1 where kind = p_kind returning revision into o_done;
    delete from record_files where kind = p_kind and key = p_key;
    if p_value is null then
        delete from records where kind = p_kind and key = p_key;
    else
        insert into records values (p_kind, p_key, o_done, p_value)
        on conflict (kind, key) do update set revision = excluded.revision, value = excluded.value;
        insert into record_files select distinct file, p_kind, p_key from unnest(p_files) as file;
    end if;
    delete from record_changes where made_at < now() - interval '1 hour';
    insert into record_changes values (p_change, o_done);
end
$$;
