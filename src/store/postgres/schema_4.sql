-- Version 4: shared files that nothing needs are removed; tables say which programs can use them.

-- The version of the tables. `version` is the oldest that a program must know to use them.
alter table about add column tables integer;

-- Removals of shared files. While one is under way, nothing can begin to need the file. When it is over, only that can whose files
-- were put after it.
create table file_removals (
    sha256 bytea primary key,
    -- Who began it last: an incarnation of a node.
    begun_by uuid not null,
    begun_at timestamptz not null,
    -- When it is over: how many were, with it.
    number bigint
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index file_removals_begun on file_removals (begun_at);

create table file_clean_up (
    -- How many groups of removals are over, and how many of those are forgotten.
    removals bigint not null,
    forgotten bigint not null,
    -- Whose turn it is to look for files that nothing needs, up to where they were looked at, and when all were.
    turn uuid,
    turn_until timestamptz,
    looked_at bytea,
    all_looked_at timestamptz
) with (fillfactor = 10);
insert into file_clean_up (removals, forgotten) values (0, 0);

-- The incarnation in which a node knows of removals. A program that does not changes the other column alone.
alter table nodes add column removes_as uuid;

create function files_lock() returns bigint language sql stable as $$
    select ('x' || substr(md5(current_schema() || '.files'), 1, 16))::bit(64)::bigint
$$;

-- Refuses files that are being removed, or were after they were put. `skill_runner.put_after` says how many removals had been over
-- before; it is not set by a program that knows nothing of removals. Who changes a record does so within minutes after its files
-- were put.
create function files_are_there() returns trigger language plpgsql as $$
declare
    put_after bigint := nullif(current_setting('skill_runner.put_after', true), '')::bigint;
begin
    perform pg_advisory_xact_lock_shared(files_lock());
    if exists (select from added join file_removals using (sha256) where number is null or number > put_after
            or put_after is null and tg_table_name = 'record_files' and begun_at > clock_timestamp() - interval '10 minutes')
        or put_after < (select forgotten from file_clean_up)
    then
        raise exception 'a shared file was removed since it was put' using errcode = 'SR001';
    end if;
    return null;
end
$$;
create trigger run_files_are_there after insert on run_files referencing new table as added
for each statement execute function files_are_there();
create trigger record_files_are_there after insert on record_files referencing new table as added
for each statement execute function files_are_there();

-- A service that knows nothing of removals waits until none is under way. From then on none is begun.
create function join_among_removals() returns trigger language plpgsql as $$
begin
    if new.removes_as is not distinct from new.incarnation then
        return new;
    end if;
    perform pg_advisory_xact_lock_shared(files_lock());
    for tries in 1..200 loop
        exit when not exists (select from file_removals where number is null);
        perform pg_sleep(0.1);
    end loop;
    return new;
end
$$;
create trigger nodes_join before insert or update of incarnation on nodes
for each row execute function join_among_removals();

-- Whether anything needs a shared file. Who needs one says so in a table with the trigger `files_are_there`.
create function file_is_needed(p_file bytea) returns boolean language sql stable as $$
    select exists (select from run_files where sha256 = p_file) or exists (select from record_files where sha256 = p_file)
$$;

-- Begins removals of what nothing needs. Nothing can begin to need a file meanwhile: who says so has the lock until its commit.
create function begin_removal_1(p_by uuid, p_files bytea[]) returns setof bytea language plpgsql as $$
begin
    -- Others wait behind whoever waits for the lock.
    perform set_config('lock_timeout', '2s', true);
    perform pg_advisory_xact_lock(files_lock());
    if exists (select from nodes where removes_as is distinct from incarnation
        and lease_until > clock_timestamp() - interval '1 day')
    then
        return;
    end if;
    return query
        insert into file_removals as kept (sha256, begun_by, begun_at)
        select file, p_by, clock_timestamp() from unnest(p_files) as file where not file_is_needed(file)
        on conflict (sha256) do update set begun_by = p_by, begun_at = clock_timestamp(), number = null
        where kept.number is not null or kept.begun_by = p_by
        returning kept.sha256;
end
$$;

create function end_removal_1(p_by uuid, p_removed bytea[], p_left bytea[]) returns void language plpgsql as $$
declare
    counted bigint;
begin
    delete from file_removals where sha256 = any (p_left) and begun_by = p_by and number is null;
    update file_clean_up set removals = removals + 1 returning removals into counted;
    update file_removals set number = counted
    where sha256 = any (p_removed) and begun_by = p_by and number is null;
    -- Who put a file longer ago than this puts it again.
    with old as (
        delete from file_removals where sha256 in (
            select sha256 from file_removals where begun_at < clock_timestamp() - interval '7 days' and number is not null
            order by begun_at limit 1000)
        returning number
    )
    update file_clean_up set forgotten = greatest(forgotten, (select max(number) from old));
end
$$;
