-- Version 6: a run is first left to the service that brought it into the queue.

-- As take_1, which goes on for programs of the release before, but for one rule: a run without `not_before` that came into the queue less
-- than `p_own_first` microseconds ago is not taken, unless it is one of `p_own`. A service has the files of its own runs; for those of
-- others it has to fetch them.
create function take_2(
    p_incarnation uuid, p_held uuid[], p_most integer, p_per_engine integer, p_per_skill integer, p_patience integer,
    p_own uuid[], p_own_first bigint
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
                    and (not_before is not null or coalesce(came, 0) <= moment - p_own_first or run = any (p_own))
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
