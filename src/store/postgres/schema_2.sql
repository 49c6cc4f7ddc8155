-- Version 2: several services work on one store.

-- Who works on a run, and where it is in the queue. Most appends change none of this.
alter table runs
    -- An incarnation of a node, while an engine works on the run or is about to. Each new owner raises `epoch`.
    add column owner uuid,
    add column epoch bigint not null default 0,
    -- Whether it is in the queue, or is to be from `not_before` on. Times are microseconds after the epoch.
    add column waits boolean not null default false,
    add column not_before bigint,
    -- When it came into the queue, and how many runs had been started then.
    add column came bigint,
    add column came_after bigint,
    add column priority smallint,
    add column share bytea,
    -- Runs with the same key have the same result.
    add column shared_key bytea,
    -- When somebody has to decide for the user.
    add column due_at bigint,
    -- When it ended, by the clock of the database.
    add column over_at bigint;
create index runs_queue on runs (priority, share, came, run) where waits and owner is null;
create index runs_owner on runs (owner) where owner is not null;
create index runs_orphan on runs (run) where owner is null and status = 'running';
create index runs_due on runs (due_at) where due_at is not null;
create index runs_unsealed on runs (over_at) where over_at is not null and deleted_at is null;

-- A column in the condition of an index counts as indexed: with `state` in it, no append rewrote its row in place.
update runs set status = null, skill = null, engine = null, temporary = null, labels = null, created_at = null
where state is null and status is not null;
drop index runs_status, runs_skill, runs_engine, runs_created, runs_labels, runs_marks;
create index runs_status on runs (status, run desc) where status is not null;
create index runs_skill on runs (skill, run desc) where skill is not null;
create index runs_engine on runs (engine, run desc) where engine is not null;
create index runs_created on runs (created_at) where created_at is not null;
create index runs_labels on runs using gin (labels) where labels is not null;
create index runs_marks on runs (deleted_at) where status is null and deleted_at is not null;

-- The services. A row whose lease has ended is marked as over before anybody takes its runs, and can not be renewed then.
create table nodes (
    node uuid primary key,
    -- A process of the node, or a later lease of it.
    incarnation uuid not null unique,
    name text not null,
    version text not null,
    address text,
    works boolean not null,
    running integer not null default 0,
    slots integer not null default 0,
    draining boolean not null default false,
    over boolean not null default false,
    lease_until timestamptz not null,
    joined_at timestamptz not null
) with (fillfactor = 50);

-- What is asked of the owner of a run.
create table controls (
    id uuid primary key,
    owner uuid not null,
    run uuid not null,
    what text not null,
    made_at timestamptz not null default now()
);
create index controls_owner on controls (owner);

-- Raw output that events cite. It goes with them.
create table raw_chunks (
    run uuid not null,
    stream smallint not null,
    byte_from bigint not null,
    bytes bytea not null,
    primary key (run, stream, byte_from)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
alter table raw_chunks alter column bytes set storage external;

-- Which runs need a shared file.
create table run_files (
    sha256 bytea not null,
    run uuid not null,
    primary key (sha256, run)
);
create index run_files_run on run_files (run);

-- What the fair queue remembers: how many runs were started, how often a priority was passed over, when a share was served.
create table queue_state (started bigint not null) with (fillfactor = 10);
insert into queue_state values (0);
create table queue_levels (priority smallint primary key, passed_over integer not null) with (fillfactor = 50);
create table queue_shares (
    priority smallint not null,
    share bytea not null,
    served bigint not null,
    primary key (priority, share)
) with (fillfactor = 50);

create function micros() returns bigint language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint
$$;

update runs set over_at = micros()
where status in ('succeeded', 'failed', 'canceled') and state is not null and deleted_at is null;

-- One at a time decides who owns what.
create function decide_alone() returns void language sql volatile as $$
    select pg_advisory_xact_lock(('x' || substr(md5(current_schema() || '.owners'), 1, 16))::bit(64)::bigint)
$$;

-- Whether the node may take runs: null if its lease is over.
create function may_take(p_incarnation uuid) returns boolean language sql volatile as $$
    select works and not draining from nodes
    where incarnation = p_incarnation and not over and lease_until > clock_timestamp()
$$;

-- Appends to one log, if it fits: 0 done, 1 another head, 2 a row that had to be absent, 3 deleted, 4 another service owns the
-- run. Refusals are no errors, so that the other appends of the transaction stand. `p_priority` is null if the row does not say
-- where the run is in the queue: then it stays there.
create function append_2(
    p_run uuid, p_expected bigint, p_head bigint,
    p_lasts bigint[], p_counts integer[], p_ndjson bytea[],
    p_row_change smallint, p_row bytea, p_open boolean,
    p_status text, p_skill text, p_engine text, p_temporary boolean, p_labels bytea[], p_created_at bigint,
    p_kinds smallint[], p_keys bytea[], p_values bytea[],
    p_absent_kind smallint, p_absent_key bytea,
    p_owner uuid, p_epoch bigint,
    p_waits boolean, p_not_before bigint, p_priority smallint, p_share bytea, p_shared_key bytea, p_due_at bigint,
    p_streams smallint[], p_froms bigint[], p_raw bytea[], p_files bytea[],
    out outcome smallint, out actual bigint, out taken bytea, out released boolean
) language plpgsql as $$
declare
    found_head bigint;
    found_deleted timestamptz;
    found_owner uuid;
    found_epoch bigint;
    is_over boolean := coalesce(p_status in ('succeeded', 'failed', 'canceled'), false);
    moment bigint;
    started_now bigint;
begin
    released := false;
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
    if p_waits then
        moment := greatest(micros(), coalesce(p_not_before, 0));
        select started into started_now from queue_state;
    elsif is_over then
        moment := micros();
    end if;
    loop
        if p_row_change = 1 then
            update runs set head = p_head, state = p_row, open = coalesce(p_open, open), status = p_status,
                skill = p_skill, engine = p_engine, temporary = p_temporary, labels = p_labels, created_at = p_created_at,
                owner = case when is_over or p_status = 'waiting_user' or status = 'running' and p_status <> 'running'
                    then null else owner end,
                waits = p_waits, not_before = p_not_before, due_at = p_due_at,
                came = case when p_waits and not waits then moment else came end,
                came_after = case when p_waits and not waits then started_now else came_after end,
                priority = coalesce(p_priority, priority),
                share = case when p_priority is null then share else p_share end,
                shared_key = case when p_priority is null then shared_key else p_shared_key end,
                over_at = case when is_over then coalesce(over_at, moment) end
            where run = p_run and head = p_expected and (deleted_at is null or p_lasts is null)
                and (owner is null or owner = p_owner) and (p_epoch is null or epoch = p_epoch)
            returning owner is null into released;
        else
            update runs set head = p_head, open = coalesce(p_open, open),
                state = case when p_row_change = 2 then null else state end,
                status = case when p_row_change = 2 then null else status end,
                skill = case when p_row_change = 2 then null else skill end,
                engine = case when p_row_change = 2 then null else engine end,
                labels = case when p_row_change = 2 then null else labels end,
                created_at = case when p_row_change = 2 then null else created_at end,
                owner = case when p_row_change = 2 then null else owner end,
                waits = waits and p_row_change <> 2,
                due_at = case when p_row_change = 2 then null else due_at end
            where run = p_run and head = p_expected and (deleted_at is null or p_lasts is null)
                and (owner is null or owner = p_owner) and (p_epoch is null or epoch = p_epoch)
            returning owner is null into released;
        end if;
        exit when found;
        released := false;
        select head, deleted_at, owner, epoch into found_head, found_deleted, found_owner, found_epoch
        from runs where run = p_run;
        if not found then
            if p_epoch is not null then
                outcome := 4;
                return;
            elsif p_expected <> 0 then
                outcome := 1;
                actual := 0;
                return;
            end if;
            insert into runs (run, head, open, state, status, skill, engine, temporary, labels, created_at,
                waits, not_before, due_at, came, came_after, priority, share, shared_key, over_at)
            values (p_run, p_head, coalesce(p_open, false), p_row, p_status, p_skill, p_engine, p_temporary, p_labels,
                p_created_at, coalesce(p_waits, false), p_not_before, p_due_at, case when p_waits then moment end,
                started_now, p_priority, p_share, p_shared_key, case when is_over then moment end)
            on conflict do nothing;
            released := found;
            exit when found;
        elsif found_owner is distinct from p_owner and found_owner is not null or found_epoch <> p_epoch then
            outcome := 4;
            return;
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
    if p_streams is not null then
        insert into raw_chunks (run, stream, byte_from, bytes)
        select p_run, piece.* from unnest(p_streams, p_froms, p_raw) as piece
        on conflict (run, stream, byte_from) do update set bytes = excluded.bytes;
    end if;
    if p_files is not null then
        insert into run_files (sha256, run) select distinct file, p_run from unnest(p_files) as file on conflict do nothing;
    end if;
    outcome := 0;
    actual := p_head;
end
$$;

-- Removes the events of a run, and with `p_whole` its row and the rows named. What is left marks that its log takes no more.
create function delete_2(p_run uuid, p_whole boolean, p_kinds smallint[], p_keys bytea[]) returns void
language plpgsql as $$
begin
    insert into runs as kept (run, head, deleted_at, open) values (p_run, 0, now(), false)
    on conflict (run) do update set head = 0, deleted_at = now(), open = false, owner = null, epoch = kept.epoch + 1,
        waits = false, due_at = null,
        state = case when p_whole then null else kept.state end,
        status = case when p_whole then null else kept.status end,
        skill = case when p_whole then null else kept.skill end,
        engine = case when p_whole then null else kept.engine end,
        labels = case when p_whole then null else kept.labels end,
        created_at = case when p_whole then null else kept.created_at end;
    delete from events where run = p_run;
    delete from raw_chunks where run = p_run;
    delete from index_rows using unnest(p_kinds, p_keys) as named (kind, key)
    where index_rows.kind = named.kind and index_rows.key = named.key;
    if p_whole then
        delete from run_files where run = p_run;
    end if;
end
$$;

-- Takes runs from the queue; the rules are those of the queue of one service. First come those that the node owns without
-- knowing it, because an answer was lost. A row without a run says that its lease is over.
create function take_1(
    p_incarnation uuid, p_held uuid[], p_most integer, p_per_engine integer, p_per_skill integer, p_patience integer
) returns table (o_run uuid, o_epoch bigint) language plpgsql set enable_seqscan = off as $$
declare
    may boolean;
    left_to_take integer := p_most;
    moment bigint;
    counted bigint;
    full_engines text[];
    full_skills text[];
    keys bytea[];
    shares bytea[];
    passed uuid[] := '{}';
    levels smallint[];
    runs_ready uuid[];
    shares_ready bytea[];
    chosen_at integer;
    chosen uuid;
begin
    perform decide_alone();
    may := may_take(p_incarnation);
    if may is null then
        return query select null::uuid, null::bigint;
        return;
    end if;
    for o_run, o_epoch in
        select run, epoch from runs where owner = p_incarnation and waits and run <> all (p_held) limit p_most
    loop
        left_to_take := left_to_take - 1;
        return next;
    end loop;
    if not may then
        return;
    end if;
    moment := micros();
    while left_to_take > 0 loop
        select array_agg(share), array_agg(shared_key) filter (where shared_key is not null)
        into shares, keys from runs where owner is not null;
        shares := coalesce(shares, '{}');
        keys := coalesce(keys, '{}');
        full_engines := array(select engine from runs where owner is not null group by engine having count(*) >= p_per_engine);
        full_skills := array(select skill from runs where owner is not null group by skill having count(*) >= p_per_skill);
        -- Of each priority the share whose turn it is, highest priority first.
        with recursive lines as (
            (select priority, share from runs where waits and owner is null order by priority, share limit 1)
            union all
            select next.priority, next.share from lines, lateral (
                select runs.priority, runs.share from runs
                where waits and owner is null and (runs.priority, runs.share) > (lines.priority, lines.share)
                order by runs.priority, runs.share limit 1) as next
        ), ready as (
            select distinct on (lines.priority) lines.priority, lines.share, able.run
            from lines
            cross join lateral (
                select runs.run from runs
                where waits and owner is null and runs.priority = lines.priority and runs.share = lines.share
                    and coalesce(not_before, 0) <= moment and run <> all (passed)
                    and (engine is null or engine <> all (full_engines))
                    and (skill is null or skill <> all (full_skills))
                    and (shared_key is null or shared_key <> all (keys))
                order by runs.came, runs.run limit 1) as able
            cross join lateral (
                select runs.came, runs.came_after from runs
                where waits and owner is null and runs.priority = lines.priority and runs.share = lines.share
                    and coalesce(not_before, 0) <= moment
                order by runs.came, runs.run limit 1) as first
            left join queue_shares on queue_shares.priority = lines.priority and queue_shares.share = lines.share
            order by lines.priority desc, cardinality(array_positions(shares, lines.share)),
                greatest(coalesce(queue_shares.served, 0), first.came_after), first.came
        )
        select array_agg(priority order by priority desc), array_agg(run order by priority desc),
            array_agg(share order by priority desc)
        into levels, runs_ready, shares_ready from ready;
        exit when levels is null;
        -- Of priorities that were passed over too often, the one that was so most.
        select place into chosen_at from unnest(levels) with ordinality as level (priority, place)
        join queue_levels using (priority) where passed_over >= p_patience order by passed_over desc, place desc limit 1;
        chosen_at := coalesce(chosen_at, 1);
        chosen := runs_ready[chosen_at];
        perform from runs where run = chosen and waits and owner is null for update skip locked;
        if not found then
            -- Somebody appends to it just now.
            passed := passed || chosen;
            continue;
        end if;
        update runs set owner = p_incarnation, epoch = epoch + 1 where run = chosen
        returning run, epoch into o_run, o_epoch;
        update queue_state set started = started + 1 returning started into counted;
        insert into queue_shares values (levels[chosen_at], shares_ready[chosen_at], counted)
        on conflict (priority, share) do update set served = excluded.served;
        insert into queue_levels
        select priority, case when priority < levels[chosen_at] then 1 else 0 end from unnest(levels) as level (priority)
        where priority <= levels[chosen_at]
        on conflict (priority) do update
        set passed_over = case when excluded.passed_over = 0 then 0 else queue_levels.passed_over + 1 end;
        if counted % 256 = 0 then
            delete from queue_shares where not exists (
                select from runs where waits and owner is null and runs.priority = queue_shares.priority
                and runs.share = queue_shares.share);
        end if;
        left_to_take := left_to_take - 1;
        return next;
    end loop;
end
$$;

-- Takes runs over whose owner's lease has ended, and those that run without an owner. Those that had not begun go back to the
-- queue. A row without a run says that the lease of the node itself is over.
create function take_abandoned_1(p_incarnation uuid, p_held uuid[], p_most integer)
returns table (o_run uuid, o_epoch bigint) language plpgsql set enable_seqscan = off as $$
declare
    may boolean;
    left_to_take integer := p_most;
begin
    perform decide_alone();
    may := may_take(p_incarnation);
    if may is null then
        return query select null::uuid, null::bigint;
        return;
    end if;
    for o_run, o_epoch in
        select run, epoch from runs where owner = p_incarnation and not waits and run <> all (p_held) limit p_most
    loop
        left_to_take := left_to_take - 1;
        return next;
    end loop;
    -- Whoever starts no runs can still say what became of them. Waits for a renewal that is under way, and looks again.
    update nodes set over = true where not over and lease_until <= clock_timestamp();
    with abandoned as (
        select run from runs where owner is not null and waits
            and not exists (select from nodes where nodes.incarnation = runs.owner and not nodes.over)
        for update skip locked
    )
    update runs set owner = null, epoch = epoch + 1 from abandoned where runs.run = abandoned.run;
    for o_run, o_epoch in
        with abandoned as (
            select run from runs where owner is not null and not waits
                and not exists (select from nodes where nodes.incarnation = runs.owner and not nodes.over)
            limit left_to_take for update skip locked
        ), orphans as (
            select run from runs where owner is null and status = 'running' limit left_to_take for update skip locked
        ), chosen as (
            select run from abandoned union all select run from orphans limit left_to_take
        )
        update runs set owner = p_incarnation, epoch = epoch + 1 from chosen where runs.run = chosen.run
        returning runs.run, runs.epoch
    loop
        return next;
    end loop;
end
$$;
