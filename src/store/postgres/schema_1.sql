-- Version 1 of the schema. A published version is never changed: what comes later is another file.

-- One row per run: the head of its log, its state row, and the columns that lists are filtered by. `head` and `row` have
-- no index, so that most appends rewrite the row in place (HOT), for which every page keeps some room.
create table runs (
    run uuid primary key,
    head bigint not null,
    -- When the events were deleted; the log takes no more. Without a row it is only a mark, which is removed after a day.
    deleted_at timestamptz,
    open boolean not null,
    state bytea,
    status text,
    skill text,
    engine text,
    temporary boolean,
    -- A digest of each label, name and value.
    labels bytea[],
    -- Microseconds after the epoch.
    created_at bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index runs_open on runs (run) where open;
create index runs_status on runs (status, run desc) where state is not null;
create index runs_skill on runs (skill, run desc) where state is not null;
create index runs_engine on runs (engine, run desc) where state is not null;
create index runs_created on runs (created_at) where state is not null;
create index runs_labels on runs using gin (labels) where state is not null;
create index runs_marks on runs (deleted_at) where state is null and deleted_at is not null;
alter table runs alter column state set storage external;

-- Batches of events of live and recent runs; those of sealed runs are deleted, so that the table stays small.
create table events (
    run uuid not null,
    last bigint not null,
    count integer not null,
    ndjson bytea not null,
    primary key (run, last)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
alter table events alter column ndjson set storage external;

-- What requests, idempotency keys and cache keys lead to.
create table index_rows (
    kind smallint not null,
    key bytea not null,
    value bytea not null,
    primary key (kind, key)
);

-- Who appends. Each group of appends raises `last_group` of its writer in the same transaction: whoever lost the connection
-- during a commit learns here whether it happened. A writer that has no row here any more can append nothing.
create table writers (
    writer uuid primary key,
    session bigint not null,
    last_group bigint not null,
    seen timestamptz not null default now()
) with (fillfactor = 50);

-- Appends to one log, if it fits: 0 done, 1 another head, 2 a row that had to be absent, 3 deleted. Refusals are no errors, so
-- that the other appends of the transaction stand.
create function append_1(
    p_run uuid, p_expected bigint, p_head bigint,
    p_lasts bigint[], p_counts integer[], p_ndjson bytea[],
    p_row_change smallint, p_row bytea, p_open boolean,
    p_status text, p_skill text, p_engine text, p_temporary boolean, p_labels bytea[], p_created_at bigint,
    p_kinds smallint[], p_keys bytea[], p_values bytea[],
    p_absent_kind smallint, p_absent_key bytea,
    out outcome smallint, out actual bigint, out taken bytea
) language plpgsql as $$
declare
    found_head bigint;
    found_deleted timestamptz;
begin
    if p_absent_kind is not null then
        -- Nobody else decides on this key until the end of the transaction.
        perform pg_advisory_xact_lock(hashtextextended(encode(p_absent_key, 'hex'), p_absent_kind));
        if p_absent_kind = 0 then
            select state into taken from runs where run = encode(p_absent_key, 'hex')::uuid and state is not null;
        else
            select value into taken from index_rows where kind = p_absent_kind and key = p_absent_key;
        end if;
        if found then
            outcome := 2;
            return;
        end if;
    end if;
    loop
        if p_row_change = 1 then
            update runs set head = p_head, state = p_row, open = coalesce(p_open, open), status = p_status,
                skill = p_skill, engine = p_engine, temporary = p_temporary, labels = p_labels, created_at = p_created_at
            where run = p_run and head = p_expected and (deleted_at is null or p_lasts is null);
        else
            update runs set head = p_head, open = coalesce(p_open, open),
                state = case when p_row_change = 2 then null else state end
            where run = p_run and head = p_expected and (deleted_at is null or p_lasts is null);
        end if;
        exit when found;
        select head, deleted_at into found_head, found_deleted from runs where run = p_run;
        if not found then
            if p_expected <> 0 then
                outcome := 1;
                actual := 0;
                return;
            end if;
            insert into runs (run, head, open, state, status, skill, engine, temporary, labels, created_at)
            values (p_run, p_head, coalesce(p_open, false), p_row, p_status, p_skill, p_engine, p_temporary, p_labels,
                p_created_at)
            on conflict do nothing;
            exit when found;
        elsif found_head <> p_expected then
            outcome := 1;
            actual := found_head;
            return;
        elsif found_deleted is not null and p_lasts is not null then
            outcome := 3;
            return;
        end if;
        -- Somebody changed the row in between: look again.
    end loop;
    if p_lasts is not null then
        insert into events (run, last, count, ndjson)
        select p_run, batch.* from unnest(p_lasts, p_counts, p_ndjson) as batch;
    end if;
    if p_kinds is not null then
        insert into index_rows as kept (kind, key, value)
        select change.* from unnest(p_kinds, p_keys, p_values) as change (kind, key, value) where change.value is not null
        on conflict (kind, key) do update set value = excluded.value;
        delete from index_rows using unnest(p_kinds, p_keys, p_values) as change (kind, key, value)
        where index_rows.kind = change.kind and index_rows.key = change.key and change.value is null;
    end if;
    outcome := 0;
    actual := p_head;
end
$$;

-- Removes the events of a run, and with `p_whole` its row and the rows named. What is left marks that its log takes no more.
create function delete_1(p_run uuid, p_whole boolean, p_kinds smallint[], p_keys bytea[]) returns void
language plpgsql as $$
begin
    insert into runs as kept (run, head, deleted_at, open) values (p_run, 0, now(), false)
    on conflict (run) do update set head = 0, deleted_at = now(), open = false,
        state = case when p_whole then null else kept.state end;
    delete from events where run = p_run;
    delete from index_rows using unnest(p_kinds, p_keys) as named (kind, key)
    where index_rows.kind = named.kind and index_rows.key = named.key;
end
$$;
